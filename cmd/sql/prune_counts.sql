-- prune_counts: what jobrun.prune_step did; $1 the state after its last step. A row for each kind with a count: what,
-- how many, how long it is kept
select k.words || case when s.archive and k.words like 'runs%' then ', to job_runs_archive' else '' end,
	c.n::text, k.keep::text
from jobrun.settings s
cross join lateral (values
	(1, 'hours', 'hours summed', null),
	(2, 'succeeded', 'runs succeeded', s.keep_succeeded),
	(3, 'keyed', 'runs succeeded, with a key', s.keep_keyed),
	(4, 'cancelled', 'runs cancelled', s.keep_cancelled),
	(5, 'dead', 'runs dead', s.keep_dead),
	(6, 'outputs', 'outputs of attempts', s.keep_output),
	(7, 'slots', 'slots', s.keep_slots),
	(8, 'effects', 'effects', s.keep_effects),
	(9, 'runners', 'runners', s.keep_runners),
	(10, 'audit', 'audit entries', s.keep_audit),
	(11, 'stats', 'sums', s.keep_stats)) k(nr, kind, words, keep)
join lateral (select ($1::jsonb -> 'counts' ->> k.kind)::bigint) c(n) on c.n > 0
where s.only_row
order by k.nr
