-- session_clean: remove what a user's statement may have left in the session (migrations/functions/session.sql)
select jobrun.session_clean()
