"""What was seen: demonstrations, their sums, data larger than memory, and where they come from."""

from typing import TYPE_CHECKING

from tacit import names_on_demand

if TYPE_CHECKING:
    from tacit.data import sources as sources
    from tacit.data.observed import Observed, PartitionedDemonstrations, write_partitions
    from tacit.data.tally import Tally
    from tacit.model.pseudo_counts import Prior

__all__ = [
    "Observed", "PartitionedDemonstrations", "Prior", "Tally", "sources", "write_partitions",
]  # fmt: skip

_HOME, __getattr__, __dir__ = names_on_demand(__name__)
