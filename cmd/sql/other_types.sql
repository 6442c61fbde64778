-- other_types: has a runner of the last day a handler for job type $1, or for that of definition $2? Then null, else the
-- types that there are, one a line.
select jobrun.other_types($1::text, $2::text)
