"""Engines that hold a model: dense and direct when small, successor lists when large.

Large models live on an accelerator in JAX, on a CPU in compiled loops, or split over many devices.
Nothing else in the library knows which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.engine.backends.protocol import MESH, Array, Backend

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from tacit.model.mdp import MDP

__all__ = ["DENSE_LIMIT", "Array", "Backend", "backend_of", "limits"]

# Up to this many states one dense factorisation beats any number of sparse products.
DENSE_LIMIT = 256


def backend_of(mdp: MDP, *, whole: bool = False) -> Backend:
    """The model's dynamics, stored as its size and the machine suggest; kept with the model.

    `whole` keeps it in one piece, inside `tacit.scale.sharded` too: a batch is split by problems.
    """
    mesh = None if whole else MESH.get()
    kept, of = mdp.__dict__.get("_backend", (None, None))
    if kept is None or of != mesh:
        kept = _build(mdp, mesh)
        mdp.__dict__["_backend"] = (kept, mesh)
    return kept


def _build(mdp: MDP, mesh: Mesh | None) -> Backend:
    import jax

    from tacit.engine.backends.device import dense, sparse
    from tacit.engine.backends.host import Host

    if mdp.states <= DENSE_LIMIT:
        return dense(mdp)
    if mesh is not None:
        from tacit.engine.backends.sharded import sharded_backend

        return sharded_backend(mdp, mesh)
    return Host(mdp) if jax.default_backend() == "cpu" else sparse(mdp)


def limits(mdp: MDP) -> tuple[np.ndarray | None, np.ndarray | None, float | None]:
    """What a backend holds of the actions that are not there, and of the way to an end.

    [S, A] bool, None where all actions are there; [S, A] the shortest walk as a policy and the
    states that it passes on average, at most, None below discount 1.
    """
    missing = ~mdp.choices if mdp.restricted else None
    if mdp.discount < 1.0:
        return missing, None, None
    return missing, np.eye(mdp.actions)[mdp.walk[0]], mdp.horizon
