"""Which features have a weight at all: a path of L1 penalties, and BIC.

The penalty is linear within the signs, so that every strength is one more fit. It only proposes
sets of features: each is fitted again without it. Errors, intervals and tests stay those of the fit
with every feature: what was left out was chosen by the same data, and must not make the rest look
surer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidModel
from tacit.inference.findings import NAMED, Finding, Kind, listed
from tacit.likelihood.problem import Fit
from tacit.model.features import Sparse

if TYPE_CHECKING:
    from tacit.estimators.likelihood import Likelihood

# Strengths of a sparse prior that are tried, as shares of one that leaves nothing.
SHARES = np.geomspace(1e-3, 1.0, 24)
# Most changes of sign on the way to one penalised fit.
FLIPS = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Selected:
    """The features that a sparse prior keeps.

    Attributes:
        fitted: the fit with these features alone, without the penalty.
        strength: of the penalty that proposed them; 0 where it leaves nothing out.
        tried: how many sets of features were compared.
        criterion: their BIC.
        every: BIC of all features.
    """

    fitted: Fit
    strength: float
    tried: int
    criterion: float
    every: float

    def finding(self, prior: Sparse) -> Finding:
        """What was done, in words."""
        kept = np.flatnonzero(self.fitted.z != 0.0)
        space = self.fitted.problem.chains[0].space
        names = [space.names[j] for j in kept]
        how = (
            f"of {self.tried} sets of features along the L1 path they have the least BIC, "
            f"{self.criterion:.6g} against {self.every:.6g} of all"
            if prior.strength is None
            else "those left by an L1 penalty of the strength given"
        )
        said = (
            f"A sparse prior of strength {self.strength:.3g} leaves {len(names)} of "
            f"{space.size} features a weight ({listed(names, NAMED) if names else 'none'}): "
            f"{how}. They were estimated again without it. All intervals and tests are of the fit "
            "with every feature, so that they hold whatever was left out."
        )
        return Finding(said, Kind.ASSUMED, number=self.strength)


def check_sparse(options: Likelihood) -> None:
    """Raises `InvalidModel` where a sparse prior cannot be had."""
    if options.lapses is not False:
        raise InvalidModel(
            "a sparse prior must be without lapses, since a mixture with them is not convex and "
            f"has no path of penalties; got lapses={options.lapses}"
        )


def select(kept: Fit, prior: Sparse, max_steps: int) -> Selected:
    """The features that the prior keeps among those of a fit; none of its constraints is lost.

    Args:
        kept: the fit with all features that are asked about, not penalised.
        prior: with a strength, or None to choose by BIC.
        max_steps: most evaluations of the loss, each fit.
    """
    chain = kept.problem.chains[0]
    price = float(np.log(max(chain.steps, 2.0)))

    def criterion(one: Fit) -> float:
        return 2.0 * one.loss + price * float(one.free.sum())

    every = criterion(kept)
    best = Selected(fitted=kept, strength=0.0, tried=1, criterion=every, every=every)
    moving = kept.problem.movable
    blocks = [block for block in chain.space.blocks if (kept.z[block] != 0.0).any()]
    strengths = [prior.strength] if prior.strength is not None else _strengths(kept, moving)
    tried, near = {_key(kept.z != 0.0)}, kept
    for strength in strengths:
        near = penalised(near, kept, float(strength), max_steps)
        chosen = (near.z != 0.0) | ~moving
        if not all((near.z[block] != 0.0).any() for block in blocks):
            if prior.strength is not None:
                raise InvalidModel(
                    "a sparse prior must leave the reward, and every constraint that is active, a "
                    f"weight; got strength {strength:g}: give a smaller one, or none"
                )
            break  # stronger ones leave no more
        if _key(chosen) in tried:
            continue
        tried.add(_key(chosen))
        # What is left out is at 0, which is within the bounds of all that can be.
        less = kept.refit(kept.problem.fixing(~chosen, 0.0), max_steps=max_steps).completed
        here = criterion(less) if less.converged else np.inf
        if here < best.criterion or prior.strength is not None:
            best = replace(best, fitted=less, strength=float(strength), criterion=here)
    return replace(best, tried=len(tried))


def penalised(near: Fit, kept: Fit, strength: float, max_steps: int) -> Fit:
    """The minimum of the loss of `kept` plus strength * sum of |x|, sought from a fit nearby."""
    problem = kept.problem
    moving = (problem.upper > problem.lower) & (problem.lower <= 0) & (problem.upper >= 0)
    either = moving & (problem.lower < 0) & (problem.upper > 0)
    signs = np.where(problem.lower >= 0, 1.0, np.where(problem.upper <= 0, -1.0, 0.0))
    signs = np.where(either, np.where(near.z < 0, -1.0, 1.0), signs)
    for _ in range(FLIPS):
        pull = np.where(moving, strength * signs, 0.0)
        within = replace(
            problem,
            tilt=pull,
            lower=np.where(either & (signs > 0), 0.0, problem.lower),
            upper=np.where(either & (signs < 0), 0.0, problem.upper),
        )
        near = near.refit(within, max_steps=max_steps)
        # At 0 the loss may fall on the other side by more than the penalty rises there.
        slope = near.gradient - pull
        turned = either & (near.z == 0.0) & (signs * slope > strength * (1.0 + 1e-6))
        if not turned.any():
            break
        signs = np.where(turned, -signs, signs)
    return near


def _strengths(kept: Fit, moving: np.ndarray) -> np.ndarray:
    """The strengths to try, from weak to such that leave nothing.

    With parameters x a penalty stronger than twice the loss gained per unit of x cannot pay: the
    slope of the loss, which is convex, is nowhere larger between 0 and x than what is collected.
    """
    collected = kept.operator.times(np.where(moving, kept.z, 0.0)[None])[0]
    most = float(np.abs(collected[moving]).max())
    return 2.0 * max(most, 1e-9) * SHARES


def _key(chosen: np.ndarray) -> bytes:
    return np.packbits(chosen).tobytes()
