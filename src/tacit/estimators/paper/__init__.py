"""Algorithm 1 of the paper."""
