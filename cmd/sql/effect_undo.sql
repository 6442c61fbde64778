-- effect_undo: remove the mark of effect $1 that effect_claim has written with the word $2, since its command was not
-- started
select jobrun.effect_undo($1::text, $2::text)
