"""Demonstrations from anywhere, and a guess at what the columns of a log are."""

from tacit.data.sources.discretise import Discretiser
from tacit.data.sources.guess import ColumnGuess, guess_columns, is_measured
from tacit.data.sources.gymnasium import action_masks, terminal_states
from tacit.data.sources.links import LinksReader
from tacit.data.sources.logs import Log, LogReader
from tacit.data.sources.measured import MeasuredReader
from tacit.data.sources.offline import from_offline
from tacit.data.sources.places import Places, clusters, hexagons, square_cells
from tacit.data.sources.profiles import Profiles
from tacit.data.sources.rasters import read_raster
from tacit.data.sources.recordings import from_imitation, from_minari, rollouts

__all__ = [
    "ColumnGuess",
    "Discretiser",
    "LinksReader",
    "Log",
    "LogReader",
    "MeasuredReader",
    "Places",
    "Profiles",
    "action_masks",
    "clusters",
    "from_imitation",
    "from_minari",
    "from_offline",
    "guess_columns",
    "hexagons",
    "is_measured",
    "read_raster",
    "rollouts",
    "square_cells",
    "terminal_states",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)
