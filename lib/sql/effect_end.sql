-- effect_end: the command of effect $1, which effect_claim has marked with the word $2, has ended with exit status $3.
-- Safe to repeat; the first end stays.
update jobrun.job_effects e set done_at = now(), detail = e.detail || jsonb_build_object('exit', $3::int)
where e.key = $1::text and e.detail ->> 'at_most_once' = $2::text and not e.detail ? 'exit'
