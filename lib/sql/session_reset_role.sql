-- session_reset_role: see sql_reset_user
reset role
