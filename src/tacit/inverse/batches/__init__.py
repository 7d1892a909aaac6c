"""Many recoveries in one call: the same compiled search over a batch, and resampling with it."""
