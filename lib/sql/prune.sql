-- prune: one step of housekeeping. $1 state from the step before, at first one of those in prune.h. Returns the new state, is it done, rows
-- removed so far, the kind that comes next, a line with all of this as the result of a run, and how many hours were
-- summed.
select s.state::text as state, (s.state ->> 'done')::boolean as done,
	(select coalesce(sum(c.n::bigint), 0)::bigint from jsonb_each_text(s.state -> 'counts') c(kind, n) where c.kind <> 'hours') as gone,
	s.state ->> 'kind' as kind, json_build_object('result', (s.state -> 'counts') || jsonb_build_object('done', s.state -> 'done'))::text as line,
	coalesce(s.state -> 'counts' ->> 'hours', '0')::bigint as hours
from (select jobrun.prune_step($1::jsonb) as state) s
