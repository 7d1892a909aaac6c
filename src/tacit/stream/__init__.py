"""What goes on arriving: recoveries brought up to date by sums, alarms, sets that always hold."""
