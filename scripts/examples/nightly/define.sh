#!/bin/sh
# The schedule of roll_up_sales.sql: each night at 01:15 in Berlin. A night in which no tick came is made up for, with a run
# of its own that works on its own day (--catch-up all).
exec jobrun define roll_up_sales --schedule '15 1 * * *' --time-zone Europe/Berlin --catch-up all --overlap allow \
	--timeout 10m --description 'sums of the sales of each day'
