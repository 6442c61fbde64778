-- fate: what became of transaction $1, whose COMMIT got no answer? committed, aborted, in progress; null: not known
select txid_status($1::text::bigint)
