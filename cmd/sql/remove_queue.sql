-- remove_queue: forget the limits and the pause of queue $1; $2: why, or null. Returns "removed", "kept" (runs with lock keys need
-- the row), or null: it has none
select jobrun.remove_queue($1::text, $2::text)
