-- effect_end: record that the command of effect $1, marked by effect_claim with the word $2, has ended with exit status
-- $3. Safe to repeat; the first end stays.
select jobrun.effect_end($1::text, $2::text, $3::integer)
