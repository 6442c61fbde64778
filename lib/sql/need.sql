-- need: the schema's version, or an error JR078 when the schema does not fit. $1 lowest, $2 highest version that this program
-- knows, $3 number of its functions, $4 their checksum
select jobrun.need($1::integer, $2::integer, $3::integer, $4::text)
