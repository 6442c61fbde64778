-- enqueue_bulk: enqueue a run for each line: $1 job type, $2 lines (binary; null: an empty one), $3 options of all of them,
-- $4 are lines options of their own?
select created, existed from jobrun.enqueue_lines($1, $2::bytea[], $3::jsonb, $4::boolean)
