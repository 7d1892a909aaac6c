"""Demonstrations from anywhere."""

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.gymnasium import rollouts
from tacit.data.sources.recordings import from_imitation, from_minari

__all__ = ["Discretiser", "from_imitation", "from_minari", "rollouts"]
