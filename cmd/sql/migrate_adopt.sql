-- migrate_adopt: accept this copy as a database of its own; $1: cancel what waits in it. Returns was it a copy, how
-- many runs were cancelled, how many running ones were asked to end, document
select a.adopted, a.cancelled, a.asked,
	json_build_object('adopted', a.adopted, 'cancelled', a.cancelled, 'requested', a.asked)::text
from jobrun.adopt($1::boolean) a
