-- effect_undo: take back the mark of effect $1 that effect_claim has written with the word $2: its command never started
select jobrun.effect_undo($1::text, $2::text)
