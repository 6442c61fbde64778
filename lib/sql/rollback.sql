-- rollback: end a transaction after an error, since the server has skipped its COMMIT
rollback
