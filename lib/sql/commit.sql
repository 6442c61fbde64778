-- commit: the end of a batch
commit
