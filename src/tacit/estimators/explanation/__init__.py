"""An exactly optimal expert: the set of all explanations of what was done, and one point of it.

`cone.py` has the set as linear forms, `program.py` linear programs over it, `answers.py` exact
answers to linear questions about all of it, `points.py` the clearest point, `gauge.py` its units,
`estimator.py` is `Explanation`.
"""
