-- prune: one step of housekeeping. $1 what the step before gave, at first {}. Gives that, whether it is the end, rows gone so
-- far, the kind it is at, a line with all of it as the result of a run, and how many hours were summed.
select s.state::text, (s.state ->> 'done')::boolean,
	(select coalesce(sum(c.n::bigint), 0)::bigint from jsonb_each_text(s.state -> 'counts') c(kind, n) where c.kind <> 'hours'),
	s.state ->> 'kind', json_build_object('result', (s.state -> 'counts') || jsonb_build_object('done', s.state -> 'done'))::text,
	coalesce(s.state -> 'counts' ->> 'hours', '0')
from (select jobrun.prune_step($1::jsonb) as state) s
