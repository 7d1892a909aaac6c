"""Trips: one network, every trajectory to a goal of its own, recovered together.

`world.py` has the noun, `Trips`; `flows.py` and `goals.py` the likelihood, by one factorisation for
all goals or in logarithms; `chain.py` makes it a chain of the one likelihood; `units.py` says what
is of one kind; `traveller.py` reports who travels.
"""
