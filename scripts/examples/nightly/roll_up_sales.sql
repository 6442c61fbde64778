-- handlers/roll_up_sales.sql: the sales of the day before the slot, a row for each product. define.sh makes the schedule.
-- jobrun.slot is the time that the schedule means, however late the run starts. A run without a slot, as of
-- `jobrun enqueue roll_up_sales` and `jobrun try roll_up_sales`, takes yesterday.
-- To repeat a day changes nothing: the sums are replaced, not added to.
with slot as (
    select coalesce(nullif(current_setting('jobrun.slot'), '')::timestamptz, now()) at time zone 'Europe/Berlin' as local
), day as (
    select local::date - 1 as day,
        (local::date - 1)::timestamp at time zone 'Europe/Berlin' as begins,
        local::date::timestamp at time zone 'Europe/Berlin' as ends
    from slot
), rolled_up as (
    insert into sales_by_day (day, product, sales, cents)
    select day.day, s.product, count(*), sum(s.cents)
    from day join sales s on s.sold_at >= day.begins and s.sold_at < day.ends
    group by day.day, s.product
    on conflict (day, product) do update set sales = excluded.sales, cents = excluded.cents
    returning product
)
select jsonb_build_object('day', day.day, 'products', (select count(*) from rolled_up)) from day
