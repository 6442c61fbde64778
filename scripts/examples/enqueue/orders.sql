-- The table of the application, in the examples of this directory.
create table orders (id bigint generated always as identity primary key, item text not null);
