-- listen: from this commit on the server notifies this session that there may be work (payload '') or that somebody has
-- asked to cancel a running run ('cancel'). Once per session, and not in a session that a pooler shares.
listen jobrun
