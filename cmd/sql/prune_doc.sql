-- prune_doc: what jobrun.prune_step did, or would do, as a JSON document; $1 the state after its last step
select json_build_object('dry_run', s.state -> 'dry_run', 'done', s.state -> 'done', 'counts', s.state -> 'counts')::text
from (select $1::jsonb as state) s
