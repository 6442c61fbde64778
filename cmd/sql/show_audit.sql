-- show_audit: what people did to run $1, the last 100, oldest first: age in ms, who, action, status before, reason
select floor(extract(epoch from now() - a.at) * 1000)::bigint, a.who,
	a.action || case when a.new ? 'payload_sha256' then ', new payload' else '' end,
	case a.old ->> 'status' when 'failed' then 'retrying' else a.old ->> 'status' end, a.reason
from (
	select d.id, d.at, d.who, d.action, d.old, d.new, d.reason
	from jobrun.job_audit d where d.object = 'run ' || $1::bigint
	order by d.id desc limit 100) a
order by a.id
