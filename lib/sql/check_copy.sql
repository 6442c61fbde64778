-- check_copy: a warning that this database was copied or moved, with what to type; null: it was not. JR078 if
-- jobrun.settings refuses copies
select jobrun.check_copy() as copied
