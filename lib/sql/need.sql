-- need: the schema's version, or error JR078 if the schema does not fit. $1 lowest, $2 highest version that this
-- program can work with, $3 lowest number of functions that it can work with, $4 number and $5 checksum of its own
-- functions
select jobrun.need($1::integer, $2::integer, $3::integer, $4::integer, $5::text)
