-- session_reset_user: comes first, since only the role that has logged in may clean up the session
reset session authorization
