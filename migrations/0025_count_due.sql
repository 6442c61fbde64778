-- 0025 count_due: late_counts() has taken its place.
drop function if exists jobrun.count_due(text, bigint);
