"""How much data stands behind estimated dynamics: unvisited pairs, thin rows, and draws of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidModel
from tacit.files.wording import listed
from tacit.model.arguments import numbers, read_only
from tacit.model.layout import Layout
from tacit.model.pseudo_counts import Over, Prior, Unvisited
from tacit.model.transitions import Successors

# A row seen fewer times than this is thin: its largest share has a standard error above 0.2.
THIN = 5
# Most pairs or states that one sentence lists.
MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class DynamicsEvidence:
    """What estimated transitions rest on.

    Attributes:
        visits: [S, A] observed steps with a known outcome.
        concentration: [S, A] observed steps and pseudo-count of each row; infinite where the row is
            known for certain, as that of a pair which is not available. With the estimated
            probabilities they make the Dirichlet law of it.
        prior: the pseudo-counts.
        unvisited: what was done about pairs that were never seen.
        uncounted: number of steps left out since where they led was not recorded.
        episodes: number of episodes that the initial distribution was counted from; 0 if given.
        deterministic: whether every pair seen at least twice always led to the same state.
    """

    visits: np.ndarray
    concentration: np.ndarray
    prior: Prior = field(default_factory=Prior)
    _: KW_ONLY
    unvisited: Unvisited = Unvisited.PRIOR
    uncounted: int = 0
    episodes: int = 0
    deterministic: bool = False

    def __post_init__(self) -> None:
        visits = numbers(self.visits, "visits")
        concentration = numbers(self.concentration, "concentration")
        if visits.ndim != 2 or visits.shape != concentration.shape:
            raise InvalidModel(
                "visits and concentration must both have shape [S, A]; "
                f"got {visits.shape} and {concentration.shape}"
            )
        if not ((visits >= 0) & (concentration >= 0)).all():
            raise InvalidModel("visits and concentration must be numbers of steps, 0 or more")
        object.__setattr__(self, "visits", read_only(visits))
        object.__setattr__(self, "concentration", read_only(concentration))

    @property
    def certain(self) -> np.ndarray:
        """[S] bool, the states known to end an episode."""
        return np.asarray(np.isinf(self.concentration).all(axis=1))

    @property
    def unvisited_pairs(self) -> np.ndarray:
        """[M, 2] the (state, action) pairs that were never seen; ends of episodes left out."""
        return np.argwhere((self.visits == 0) & np.isfinite(self.concentration))

    @property
    def never_left(self) -> np.ndarray:
        """[M] the states of which no step was seen, other than ends of episodes."""
        return np.flatnonzero((self.visits.sum(axis=1) == 0) & ~self.certain)

    @property
    def thin_share(self) -> float:
        """Share of the observed steps that lie in rows seen fewer than `THIN` times."""
        total = self.visits.sum()
        return float(self.visits[self.visits < THIN].sum() / total) if total else 1.0

    @property
    def effective_sample_size(self) -> float:
        """Harmonic mean, over the observed steps, of how often their row was seen."""
        seen = int((self.visits > 0).sum())
        return float(self.visits.sum() / seen) if seen else 0.0

    def draw(self, transitions: Successors, rng: np.random.Generator) -> Successors:
        """The transitions with every uncertain row drawn anew from its Dirichlet law.

        Args:
            transitions: the estimate that this evidence belongs to, as `mdp.transitions`.
            rng: where chance comes from.
        """
        mean = np.asarray(transitions.probabilities)
        uncertain = np.isfinite(self.concentration) & (self.concentration > 0)
        shapes = mean * np.where(uncertain, self.concentration, 0.0)[:, :, None]
        possible = shapes > 0
        shape = shapes[possible]
        # A Dirichlet draw is gamma draws over their sum. In logarithms: a law of shape 0.001
        # underflows, and a whole row of them would be 0. Gamma(k) is Gamma(k + 1) * U^(1 / k).
        uniform = 1.0 - rng.random(len(shape))  # never 0
        logs = np.full(mean.shape, -np.inf)
        logs[possible] = np.log(rng.standard_gamma(shape + 1.0)) + np.log(uniform) / shape
        largest = logs.max(axis=2, keepdims=True, initial=-np.inf)
        weights = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
        total = weights.sum(axis=2, keepdims=True)
        draws = weights / np.where(total > 0, total, 1.0)
        return Successors(transitions.states, np.where(uncertain[:, :, None], draws, mean))

    def sentences(
        self, layout: Layout | None = None, *, ends: ArrayLike | None = None
    ) -> tuple[str, ...]:
        """Plain sentences about what was counted, assumed, and left in doubt.

        Args:
            layout: how states and actions are called.
            ends: [S] bool, which states end an episode, as `mdp.ends`; None where it is not known
                whether time goes on in states that nothing leaves.
        """
        layout = layout or Layout()
        return (
            *self._count_sentences(),
            *self._end_sentences(layout, ends),
            *self._gap_sentences(layout),
            *self._doubt_sentences(),
        )

    def _count_sentences(self) -> Iterator[str]:
        """What was counted, and what could not be."""
        counted = _many(int(self.visits.sum()), "observed step")
        yield f"The transitions were estimated from {counted}. {self.prior.sentence}"
        if self.uncounted:
            yield (
                f"{_many(self.uncounted, 'last step')} could not be counted: where "
                f"{'it' if self.uncounted == 1 else 'they'} led was not recorded."
            )
        if self.episodes:
            yield f"The start was counted from {_many(self.episodes, 'episode')}."

    def _end_sentences(self, layout: Layout, ends: ArrayLike | None) -> Iterator[str]:
        """Which states nothing leaves, and which pairs are not available."""
        is_end = self.certain if ends is None else self.certain & np.asarray(ends, bool)
        if is_end.any():
            names = _state_names(layout, np.flatnonzero(is_end))
            yield f"Episodes end in {names}, which nothing leaves."
        if (self.certain & ~is_end).any():
            names = _state_names(layout, np.flatnonzero(self.certain & ~is_end))
            yield f"Nothing leaves {names}: time goes on there."
        unavailable = int((np.isinf(self.concentration) & ~self.certain[:, None]).sum())
        if unavailable:
            one = unavailable == 1
            verb = "pair of state and action is" if one else "pairs of state and action are"
            yield f"{unavailable} {verb} not available, as was said."

    def _gap_sentences(self, layout: Layout) -> Iterator[str]:
        """Which pairs were never seen, which states never left, and what was assumed of them."""
        pairs = int(np.isfinite(self.concentration).sum())
        missing = self.unvisited_pairs
        if len(missing):
            names = [f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in missing]
            yield (
                f"{len(missing)} of {pairs} pairs of state and action were never seen "
                f"({listed(names, MOST_NAMED)}). {self._filled()}"
            )
        if len(self.never_left):
            is_local = self.prior.over in (Over.SUCCESSORS, Over.STAY)
            stays = self.unvisited is Unvisited.STAY or is_local
            rule = "taken to stay for ever" if stays else "filled from the prior alone"
            yield f"No step out of {_state_names(layout, self.never_left)} was seen: {rule}."

    def _doubt_sentences(self) -> Iterator[str]:
        """How thin the counts are, and what takes account of that."""
        if self.visits.sum():
            yield (
                f"{self.thin_share:.0%} of the observed steps lie in pairs seen fewer than {THIN} "
                f"times; a step's pair was seen {self.effective_sample_size:.3g} times on average "
                "(harmonic mean)."
            )
        yield (
            "Errors, intervals and tests of Likelihood count what is not known of these "
            "transitions; other estimators take them for known."
        )
        if self.deterministic and self.prior.strength > 0:
            yield (
                "Every pair seen twice or more always led to the same state: if this world is "
                "deterministic, a prior of 0 (no pseudo-counts) suits it better."
            )

    def _filled(self) -> str:
        """What was assumed of pairs that were never seen."""
        if self.unvisited is Unvisited.STAY:
            return "They were taken to stay where they are."
        places = {
            Over.SUCCESSORS: "each successor seen from their state is taken to be as likely",
            Over.ALL: "every state is taken to be as likely",
            Over.STAY: "they are taken to stay where they are",
        }
        return f"There {places[self.prior.over]}."


def _state_names(layout: Layout, states: np.ndarray) -> str:
    return listed([layout.state_name(int(state)) for state in states], MOST_NAMED)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
