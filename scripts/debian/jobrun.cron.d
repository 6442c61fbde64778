# jobrun every minute. Say which database, and remove the # of the last line; or enable the timer instead:
# systemctl enable --now jobrun.timer
#
#JOBRUN_DATABASE_URL=postgresql://app@db.example.org/app
#* * * * * jobrun /usr/bin/jobrun --once
