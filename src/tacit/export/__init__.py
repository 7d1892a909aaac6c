"""Out to the tools people use: Gymnasium environments, wrappers, and plain tables."""

from tacit.export.environment import environment
from tacit.export.tables import tables
from tacit.export.wrapper import wrapper

__all__ = ["environment", "tables", "wrapper"]
