-- enqueue_bulk_begin: before the first enqueue_bulk: read the transaction's number (see fate), and switch notices off, which
-- nobody would read.
select txid_current()::text, set_config('client_min_messages', 'error', true)
