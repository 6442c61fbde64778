-- zone: refuse $1, a time zone that somebody typed, unless the server knows it; in the words that define and next have for it.
select from jobrun.next_slots('@daily', $1::text)
