-- order.sql: an order and the run that sends its invoice, both or neither
begin;
with placed as (insert into orders (item) values ('tea') returning id)
select jobrun.enqueue('send_invoice', jsonb_build_object('order', id), run_in => '5 minutes') from placed;
commit;
