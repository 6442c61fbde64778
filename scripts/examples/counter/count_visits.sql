-- handlers/count_visits.sql: $1 is [{"run_id": 7, "key": "…", "attempt": 1, "payload": {"page": "/home"}}, …]
with visit as (
    select (r ->> 'run_id')::bigint as run_id, r -> 'payload' ->> 'page' as page
    from jsonb_array_elements($1) r
), counted as (
    insert into visits as v (page, n)
    select page, count(*) from visit where page is not null group by page order by page
    on conflict (page) do update set n = v.n + excluded.n
)
select run_id, 'give_up' as verdict, 'no page in the payload' as error from visit where page is null
