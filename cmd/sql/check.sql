-- check: what `jobrun check` judges, in this order; $1 only these job types (null: all). Returns label, value (null: there is
-- none), whom it is about (null: nobody).
select m.label, m.value, m.about from jobrun.measures($1::text[]) m
