-- The table of the prototype: what a queue in PostgreSQL needs at least if each run has a lease and finished runs are kept.
create table queue_runs (
    id           bigint generated always as identity primary key,
    run_at       timestamptz not null default now(),
    created_at   timestamptz not null default now(),
    locked_until timestamptz,
    finished_at  timestamptz,
    locked_by    int,
    attempts     smallint not null default 0,
    max_attempts smallint not null default 5,
    priority     smallint not null default 0,
    status       smallint not null default 0, -- 0 waits, 1 runs, 2 succeeded, 4 dead
    queue        text not null default 'default',
    job_type     text not null,
    payload      jsonb not null default '{}',
    last_error   text
);
create index queue_runs_waiting on queue_runs (queue, priority, run_at, id) where status = 0;
create table queue_runners (
    id          bigint generated always as identity primary key,
    seen_at     timestamptz not null default now(),
    finished_at timestamptz
);
