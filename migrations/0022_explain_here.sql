-- explain_here: what a host knows of itself is told to explain(). These have got more parameters.

drop function if exists jobrun.explain(bigint);
drop function if exists jobrun.explain_definition(text);
drop function if exists jobrun.next_waiting(text[], text[], bigint);
