-- other_queues: has anything queue $1? Then null, else the queues that there are, one a line.
select jobrun.other_queues($1::text)
