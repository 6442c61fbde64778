-- What roll_up_sales.sql reads and writes: your tables.
create table sales (sold_at timestamptz not null, product text not null, cents bigint not null);
create index on sales (sold_at);
create table sales_by_day (day date, product text, sales bigint not null, cents bigint not null, primary key (day, product));
