"""What was seen: demonstrations, their sums, data larger than memory, and where they come from."""

from tacit.data import sources
from tacit.data.observed import PartitionedDemonstrations, write_partitions
from tacit.data.tally import Tally
from tacit.model.counts import Prior

__all__ = ["PartitionedDemonstrations", "Prior", "Tally", "sources", "write_partitions"]
