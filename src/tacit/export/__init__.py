"""Out to the tools people use: Gymnasium environments, wrappers, and plain tables."""

from tacit.export.environment import environment, wrapper
from tacit.export.tables import tables

__all__ = ["environment", "tables", "wrapper"]
