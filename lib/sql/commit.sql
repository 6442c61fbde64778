-- commit: the end of a request
commit
