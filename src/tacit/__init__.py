"""Recover what a demonstrator wants and refuses."""

__version__ = "0.1.0"
