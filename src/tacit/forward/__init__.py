"""Objective -> Solution, Solution -> Demonstrations: solvers, certificates, simulation."""
