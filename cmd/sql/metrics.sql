-- metrics: $1 waiting and dead runs are counted up to so many (null: all). Returns the metric's name without "jobrun_", names and
-- values of its labels by turns (null: no more), its value, its buckets (null: it has none), a document, the database. Rows of a
-- metric come in one order.
select m.metric, m.labels[1], m.labels[2], m.labels[3], m.labels[4], m.labels[5], m.labels[6], m.value::text,
	array_to_string(m.buckets, ' '),
	json_build_object('name', 'jobrun_' || m.metric, 'labels', json_object(m.labels), 'value', m.value, 'buckets', m.buckets)::text, current_database()
from jobrun.metrics($1::bigint) m
order by m.metric collate "C", m.labels collate "C"
