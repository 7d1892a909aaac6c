"""Objective -> Solution: solvers of the constrained problem, each with a certificate."""
