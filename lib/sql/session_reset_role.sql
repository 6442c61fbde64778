-- session_reset_role: see session_reset_user
reset role
