"""Hard constraints: what a demonstrator never does, though its reward would have it done."""
