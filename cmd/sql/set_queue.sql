-- set_queue: set the limits of queue $1 that are members of $2 (a JSON object); the others stay. $3: why, or null
select q.name from jobrun.set_queue($1::text, $2::text::jsonb, $3::text) q
