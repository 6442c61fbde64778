-- list_plan: for the statement that follows in this transaction (list, list_errors). Each of its windows reads an index in order
-- and stops at its limit. On a table that was never analysed the planner would rather read all waiting runs and sort them.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)
