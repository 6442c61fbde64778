-- session_constraints: check deferred constraints and fire deferred triggers now, in the session as the user's
-- statement left it. Before a ROLLBACK this shows the errors that COMMIT would have raised
set constraints all immediate
