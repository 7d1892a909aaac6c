"""Demonstrations from anywhere."""

from tacit.sources.collect import rollouts
from tacit.sources.discretise import Discretiser
from tacit.sources.recordings import from_imitation, from_minari

__all__ = ["Discretiser", "from_imitation", "from_minari", "rollouts"]
