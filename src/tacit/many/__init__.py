"""Many recoveries: a batch of one shape in one call, and tasks each by itself."""

from tacit.inverse.batches.recover_many import Batch, recover_many
from tacit.many.each import recover_each

__all__ = ["Batch", "recover_each", "recover_many"]
