-- fate: what has become of transaction $1, whose COMMIT was not answered: committed, aborted, in progress; null: not known
select txid_status($1::text::bigint)
