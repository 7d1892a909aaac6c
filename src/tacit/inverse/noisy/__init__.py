"""A noisy expert: likelihood and feature matching, with error bars."""
