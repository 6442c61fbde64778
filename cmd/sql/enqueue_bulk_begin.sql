-- enqueue_bulk_begin: in front of enqueue_bulk; the transaction's number (see fate). Nobody reads what is worth a notice.
select txid_current()::text, set_config('client_min_messages', 'error', true)
