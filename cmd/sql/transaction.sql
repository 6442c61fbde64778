-- transaction: the number of this transaction, for fate
select txid_current()::text
