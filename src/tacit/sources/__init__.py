"""Demonstrations from anywhere."""

from tacit.sources.discretise import Discretiser

__all__ = ["Discretiser"]
