-- exec_skipped: why a command of this definition would not be started now, or null. $1 definition
select jobrun.exec_skipped($1::text)
