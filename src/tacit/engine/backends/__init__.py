"""Engines that hold a model: dense and direct when small, successor lists when large.

Small models live in NumPy, where nobody waits for a compiler, or in JAX, where it was loaded before
and is faster; batches of them live in JAX. Large ones live on an accelerator in JAX, on a CPU
in compiled loops, or split over many devices. Nothing else in the library knows which.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from tacit.engine import MESH, Array, Backend

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from tacit.model.mdp import MDP

__all__ = ["DENSE_LIMIT", "Array", "Backend", "backend_of"]

# Up to this many states one dense factorisation beats any number of sparse products.
DENSE_LIMIT = 256


def backend_of(mdp: MDP, *, whole: bool = False) -> Backend:
    """The model's dynamics, stored as its size and the machine suggest; kept with the model.

    `whole` is for a batch, which is split by problems: the model stays in one piece, inside
    `tacit.scale.sharded` too, and in JAX, which does many small ones at once.
    """
    mesh = None if whole else MESH.get()
    form = (mesh, whole and mdp.states <= DENSE_LIMIT)
    kept, of = mdp.__dict__.get("_backend", (None, None))
    if kept is None or of != form:
        kept = _build(mdp, mesh, whole)
        mdp.__dict__["_backend"] = (kept, form)
    return kept


@functools.cache
def compiler_is_there() -> bool:
    """Whether JAX was loaded before the first model asked.

    Then nobody waits for it, and many small fits are several times as fast. It is decided once a
    process, so that what comes later in a run does not depend on what came before.
    """
    return "jax" in sys.modules


def _build(mdp: MDP, mesh: Mesh | None, whole: bool) -> Backend:
    from tacit.engine.backends.host import Direct, Host

    if mdp.states <= DENSE_LIMIT and not whole and not compiler_is_there():
        return Direct(mdp)
    import jax

    from tacit.engine.backends.device import dense, sparse

    if mdp.states <= DENSE_LIMIT:
        return dense(mdp)
    # Undiscounted systems need elimination to fall back on, which no split model has.
    if mesh is not None and mdp.discount < 1.0:
        from tacit.engine.backends.sharded import sharded_backend

        return sharded_backend(mdp, mesh)
    return Host(mdp) if jax.default_backend() == "cpu" else sparse(mdp)
