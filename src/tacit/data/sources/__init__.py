"""Demonstrations from anywhere."""

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.gymnasium import action_masks, terminal_states
from tacit.data.sources.logs import ingest
from tacit.data.sources.places import Places, clusters, hexagons, read_raster, square_cells
from tacit.data.sources.recordings import from_imitation, from_minari, rollouts
from tacit.data.sources.tracks import Log

__all__ = [
    "Discretiser",
    "Log",
    "Places",
    "action_masks",
    "clusters",
    "from_imitation",
    "from_minari",
    "hexagons",
    "ingest",
    "read_raster",
    "rollouts",
    "square_cells",
    "terminal_states",
]
