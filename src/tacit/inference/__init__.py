"""Inference as functions of matrices and arrays, whatever estimator asks.

Information, scores and masks come in; tests, laws and intervals go out. Nothing here knows of a
search, a problem or a recovery.
"""
