-- 0028_known_open: who enqueues many runs counts the unfinished ones once, and says what is known of them.
drop function if exists jobrun.insert_run, jobrun.enqueue_with;
