"""What a demonstrator never does although its reward would have it done.

`candidates.py` lists what may be forbidden, `selection.py` tests it given what was found before
(the simplest explanation), `walks.py` and `steps.py` have the likelihood of sets of candidates,
`posterior.py` believes in sets, which `chains.py` draws, and names candidates at a level,
`estimator.py` is `Forbidden`, `sentences.py` says what was found.
"""
