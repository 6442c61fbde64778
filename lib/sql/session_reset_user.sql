-- session_reset_user: first of all, since only who has logged in may clean up
reset session authorization
