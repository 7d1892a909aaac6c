"""Features that people can write: builders of named columns over states and actions.

Every builder gives a `Map`; `+` puts maps side by side, and `combine` makes the `Features` that
estimators take.
"""

from tacit.model.features.maps import (
    Map,
    action_one_hot,
    bumps,
    combine,
    coordinates,
    distance_to,
    one_hot,
    product,
    scaled,
)
from tacit.model.features.table import columns

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
