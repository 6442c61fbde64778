-- begin: every transaction says its isolation itself, whatever the server's default is
begin isolation level read committed
