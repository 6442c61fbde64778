-- define_payload: the payload of definition $1, and $2, the document of definitions.sql, with it
select d.payload::text, left($2::text, -1) || ',"payload":' || coalesce(d.payload::text, 'null') || '}'
from jobrun.job_definitions d
where d.name = $1::text
