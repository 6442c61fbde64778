-- report_plans: no statement of this transaction reads a large table from its beginning, whatever the planner believes of its size
select set_config('enable_seqscan', 'off', true)
