"""Algorithm 1 of the paper, as published and calibrated."""
