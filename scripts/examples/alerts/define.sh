#!/bin/sh
# When a run of send_mail is dead, raise an alarm: a run of alert_all. Name another job type to alert in one way only.
exec jobrun define send_mail --on-dead alert_all
