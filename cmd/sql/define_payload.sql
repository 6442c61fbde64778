-- define_payload: the payload of definition $1, and the document $2 (of definitions.sql) with the payload added
select d.payload::text, left($2::text, -1) || ',"payload":' || coalesce(d.payload::text, 'null') || '}'
from jobrun.job_definitions d
where d.name = $1::text
