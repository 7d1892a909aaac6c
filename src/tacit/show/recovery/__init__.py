"""The report of one recovery: what was found on top, what it rests on below."""
