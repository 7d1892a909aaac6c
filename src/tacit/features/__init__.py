"""Features that people can write: builders of named columns over states and actions.

Every builder gives a `Map`; `+` puts maps side by side, and `combine` makes the `Features` that
estimators take.
"""

from tacit.features.columns import columns
from tacit.features.distances import distance_to
from tacit.features.map import Map, combine, product, scaled
from tacit.features.places import action_one_hot, bumps, coordinates, one_hot

__all__ = [
    "Map",
    "action_one_hot",
    "bumps",
    "columns",
    "combine",
    "coordinates",
    "distance_to",
    "one_hot",
    "product",
    "scaled",
]
