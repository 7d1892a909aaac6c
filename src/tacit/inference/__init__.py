"""What can be said of any fit: laws, tests and intervals, and the nouns of a report.

Functions of matrices first: information, scores and masks come in, laws and intervals go out. Above
them what is known of a fit of the one likelihood, whatever estimator asked for it. Nothing here
knows of an estimator.
"""
