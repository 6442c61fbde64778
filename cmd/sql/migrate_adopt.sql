-- migrate_adopt: this copy is a database of its own from now on; $1: and what waits in it is cancelled. Gives whether it was a copy,
-- runs that were cancelled, and running ones that were asked to end, document
select a.adopted, a.cancelled, a.asked, row_to_json(a)::text from jobrun.adopt($1::boolean) a
