"""Demonstrations from anywhere."""

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.gymnasium import action_masks, terminal_states
from tacit.data.sources.recordings import from_imitation, from_minari, rollouts

__all__ = [
    "Discretiser",
    "action_masks",
    "from_imitation",
    "from_minari",
    "rollouts",
    "terminal_states",
]
