-- need: the schema's version, or an error JR078 when it does not fit. $1 lowest, $2 highest version that this program knows
select jobrun.need($1::integer, $2::integer)
