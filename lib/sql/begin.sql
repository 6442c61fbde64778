-- begin: every transaction sets its isolation level itself, whatever the server's default is
begin isolation level read committed
