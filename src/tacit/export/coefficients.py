"""Draws of the coefficients as other tools for inference read them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from tacit.checks.beliefs import Posterior
from tacit.errors import InvalidModel, optional
from tacit.estimators.bootstrap import Replicates
from tacit.recovery import Recovery, Saved

# Kinds of draws of a recovery.
PARAMETRIC, BOOTSTRAP = "parametric", "bootstrap"


def draws(
    source: Saved | Posterior, *, kind: str = PARAMETRIC, count: int = 4000, seed: int = 0
) -> dict[str, np.ndarray]:
    """Name of a coefficient -> [1, N] draws: one chain, as ArviZ counts them.

    `arviz.from_dict(tacit.export.draws(recovery))` reads it; `inference_data` does so.

    Args:
        source: a recovery; or a `Posterior`, whose draws are given as they are.
        kind: of a recovery: "parametric" for the law of its coefficients within their bounds,
            "bootstrap" for those of its replicates that converged.
        count: how many parametric ones.
        seed: of these.
    """
    if isinstance(source, Posterior):
        return _named(source.names, source.draws)
    if not isinstance(source, Saved):
        raise InvalidModel(f"draws are of a recovery or a posterior; got {type(source).__name__}")
    if kind not in (PARAMETRIC, BOOTSTRAP):
        raise InvalidModel(f"kind must be {PARAMETRIC!r} or {BOOTSTRAP!r}; got {kind!r:.60}")
    if kind == BOOTSTRAP:
        parts: tuple[Recovery, ...] = source.parts
        found = [_converged(one.replicates) for one in parts]
        least = min(map(len, found))
        table = np.concatenate([one[:least] for one in found], axis=1)
        return _named(source.parameters.names, table)  # pyright: ignore
    law = source.parameters.law  # pyright: ignore
    if law.absence:
        raise InvalidModel(f"there is no law of the coefficients to draw from: {law.absence}")
    if len(law.blind):
        raise InvalidModel(
            "the demonstrations leave a combination of coefficients open: it has no draws; "
            "tacit.checks.posterior takes a belief about it"
        )
    return _named(source.parameters.names, law.draws(count + count % 2, seed)[:count])  # pyright: ignore


def inference_data(
    source: Saved | Posterior, *, kind: str = PARAMETRIC, count: int = 4000, seed: int = 0
) -> Any:
    """The draws as ArviZ holds them: an `InferenceData` or, from its version 1, a `DataTree`.

    Its plots and summaries take it: `arviz.plot_forest(tacit.export.inference_data(recovery))`.
    Parametric and bootstrap draws stand in the group `posterior`, too, which is where ArviZ looks;
    the attribute `kind` says what they are.

    Args:
        source: as in `draws`.
        kind: likewise.
        count: likewise.
        seed: likewise.
    """
    found = draws(source, kind=kind, count=count, seed=seed)
    arviz = optional("arviz", "this needs ArviZ", "arviz")
    takes_groups = "data" in signature(arviz.from_dict).parameters
    made = arviz.from_dict({"posterior": found}) if takes_groups else arviz.from_dict(found)
    made.attrs["kind"] = "posterior" if isinstance(source, Posterior) else kind
    return made


def _named(names: tuple[str, ...], table: np.ndarray) -> dict[str, np.ndarray]:
    """Name -> [1, N] of draws [N, P]."""
    return {name: column[None] for name, column in zip(names, np.array(table).T, strict=True)}


def _converged(replicates: Replicates | None) -> np.ndarray:
    """[N, P] coefficients of the replicates that converged."""
    if replicates is None:
        raise InvalidModel(
            "there are no replicates: recover(..., bootstrap=200) makes some, and a recovery that "
            "was loaded does not hold them"
        )
    found = replicates.coefficients[replicates.converged]
    return found[np.isfinite(found).all(axis=1)]
