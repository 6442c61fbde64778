-- prune_counts: what jobrun.prune_step did; $1 the state after its last step. A row for each kind with a count: what,
-- how many, how long it is kept
select k.words || case when s.archive and k.words like 'runs%' then ', to the archive' else '' end,
	c.n::text, k.keep::text
from jobrun.settings s
cross join lateral (values
	(1, 'hours', 'hours summed', null),
	(2, 'months', 'months of the archive', s.keep_archive),
	(3, 'succeeded', 'runs succeeded', s.keep_succeeded),
	(4, 'keyed', 'runs succeeded, with a key', s.keep_keyed),
	(5, 'cancelled', 'runs cancelled', s.keep_cancelled),
	(6, 'dead', 'runs dead', s.keep_dead),
	(7, 'outputs', 'outputs of attempts', s.keep_output),
	(8, 'archived_outputs', 'outputs in the archive', s.keep_output),
	(9, 'slots', 'slots', s.keep_slots),
	(10, 'effects', 'effects', s.keep_effects),
	(11, 'runners', 'runners', s.keep_runners),
	(12, 'audit', 'audit entries', s.keep_audit),
	(13, 'stats', 'sums', s.keep_stats)) k(nr, kind, words, keep)
join lateral (select ($1::jsonb -> 'counts' ->> k.kind)::bigint) c(n) on c.n > 0
where s.only_row
order by k.nr
