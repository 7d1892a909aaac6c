"""The one likelihood: chains of what was seen, tied together, with bounds and equalities."""
