-- check_types: for each of job types $1: null if anything has it, else the types that there are, one a line.
select jobrun.other_paused_types(t.name) from unnest($1::text[]) with ordinality t(name, nr) order by t.nr
