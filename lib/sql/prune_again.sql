-- prune_again: housekeeping has to end before all is done, and goes on in a minute.
select jobrun.prune_again()
