-- check_copy: what is to be told of a database that was copied or moved, and what to type; null: it is where it belongs. JR078 where
-- settings refuse copies
select jobrun.check_copy() as copied
