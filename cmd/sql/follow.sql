-- follow: the output of run $1 is looked at; see jobrun.follow(). Returns: is it marked, how often its runner renews its
-- lease in ms (null: an older program, which sends output only then), and the end of its lease.
select f.followed, floor(extract(epoch from f.heartbeat) * 1000)::bigint, f.locked_until
from jobrun.follow($1::bigint) f
