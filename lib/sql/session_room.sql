-- session_room: allocate $1 KiB and free them. When glibc's free() finds more than a limit free at the end of the heap, it
-- gives that back to the kernel. The limit is 128 KiB at first, and then twice the largest block that was allocated with mmap
-- and freed (mallopt(3), M_TRIM_THRESHOLD). So after this statement the server no longer takes the memory for a large parameter
-- from the kernel again and again
select pg_catalog.octet_length(pg_catalog.repeat(pg_catalog.repeat(' ', 1024), $1))
