-- listen: from this commit on the server passes on that there may be work (payload '') or that a running run was asked
-- to stop ('cancel'). Only for a session of one's own, and once for each.
listen jobrun
