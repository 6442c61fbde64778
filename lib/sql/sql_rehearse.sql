-- sql_rehearse: what COMMIT would have said, in front of a ROLLBACK
set constraints all immediate
