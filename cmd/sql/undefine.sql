-- undefine: remove the definitions $1 (array of names); $2: why, or null. Locked in order of id, as everywhere. Returns
-- name, did it exist, document, how many runs of it wait.
with asked as materialized (
	select n.name, min(d.id) as id
	from unnest($1::text[]) n(name) left join jobrun.job_definitions d on d.name = n.name
	group by n.name
), ordered as materialized (
	select a.name, a.id from asked a order by a.id, a.name
), done as materialized (
	select o.name, jobrun.undefine(o.name, $2::text) as removed,
		(select count(*) from jobrun.job_runs r where r.definition_id = o.id and r.finished_at is null and r.status <> 'running') as waiting
	from ordered o
)
select d.name, d.removed, row_to_json(d)::text, d.waiting from done d order by d.name
