"""Out to the tools people use: Gymnasium environments, wrappers, and plain tables."""

from tacit.export.arrays import tables
from tacit.export.gymnasium import environment, wrapper

__all__ = ["environment", "tables", "wrapper"]
