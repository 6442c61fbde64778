-- session_constraints: what is deferred to COMMIT happens now, in the session that the statement has left; also what COMMIT
-- would have said, in front of a ROLLBACK
set constraints all immediate
