-- doctor_copy: was this database copied from another? Returns findings (doctor.h).
select case when s.copies = 'refuse' then 'fail' else 'warn' end, c.copied, null::bigint,
	case when s.copies = 'refuse' then 'nothing is run in it' else 'runs of the original are run here, too' end
		|| '; if the original goes on, add --cancel-waiting',
	'jobrun migrate --adopt', null::text
from jobrun.settings s cross join jobrun.copied() c(copied)
where c.copied is not null
