"""Demonstrations -> Objective: estimators, each with a certificate and what it cannot tell."""
