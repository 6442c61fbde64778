-- effect_undo: take back the mark of effect $1 that effect_claim has written with the word $2: its command never started
delete from jobrun.job_effects e where e.key = $1::text and e.detail ->> 'at_most_once' = $2::text
