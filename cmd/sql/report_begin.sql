-- report_begin: all statements of a report see one moment, and change nothing
begin isolation level repeatable read, read only
