-- doctor_server: can this session write? Returns is it a standby, and are transactions read only.
select pg_is_in_recovery() as standby, current_setting('transaction_read_only') = 'on' as read_only
