-- 0017 pause_all: everything, or one host, can be paused.

-- The pause of a host stands in one of its rows, whichever; the index has only those rows, so a claim on any host finds
-- an empty one while no host is paused.
alter table jobrun.settings add column paused_until timestamptz, add column paused_reason text, add column paused_by text collate "C";
alter table jobrun.job_runners add column paused_until timestamptz, add column paused_reason text,
	add column paused_by text collate "C";
create index job_runners_paused on jobrun.job_runners (host) where paused_until is not null;

drop function if exists jobrun.pause(text, text, text, interval, text);
drop function if exists jobrun.resume(text, text, text, text);
drop function if exists jobrun.candidates(text[], text[], bigint);
