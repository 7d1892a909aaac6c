"""The search for a minimum within bounds and linear equalities, and what it asks of a problem."""
