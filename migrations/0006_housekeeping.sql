-- 0006: housekeeping (the branch prune has it; on a conflict take that one).
select 1;
