-- 0018 retry_payload: retry can replace the payload.
drop function if exists jobrun.retry(bigint, boolean, text);
