-- doctor_clock: the clock of the server, in ms since 1970
select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
