-- 0010 unique_keys: its number is taken.
do $do$ begin end $do$;
