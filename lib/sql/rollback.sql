-- rollback: after an error in an explicit transaction, whose commit the server has skipped
rollback
