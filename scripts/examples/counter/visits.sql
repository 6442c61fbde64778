-- visits.sql: the table that counts visits
create table visits (page text primary key, n bigint not null, last_key text);
