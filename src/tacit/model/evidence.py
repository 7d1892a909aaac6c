"""How much data stands behind estimated dynamics: unvisited pairs, thin rows, and draws of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidDemonstrations, InvalidModel
from tacit.model import first_unavailable
from tacit.model.counts import (
    Over,
    Prior,
    TransitionCounts,
    Unvisited,
    count_transitions,
    observed_steps,
    posterior,
    unvisited_rule,
)
from tacit.model.transitions import Layout, Successors, numbers, read_only

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tacit.data.demonstrations import Demonstrations

# A row seen fewer times than this is thin: its largest share has a standard error above 0.2.
THIN = 5
# Most pairs or states that one sentence lists.
NAMED = 4
# What a file keeps.
ENTRIES = ("visits", "concentration", "prior_strength", "prior_over", "unvisited", "counted")


@dataclass(frozen=True, eq=False)
class Evidence:
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
        moving = np.isfinite(self.concentration) & (self.concentration > 0)
        share = mean * np.where(moving, self.concentration, 0.0)[:, :, None]
        inside = share > 0
        # In logarithms: a law of shape 0.001 underflows, a whole row of them would be nothing.
        drawn = np.full(mean.shape, -np.inf)
        shape = share[inside]
        uniform = 1.0 - rng.random(len(shape))  # never 0
        drawn[inside] = np.log(rng.standard_gamma(shape + 1.0)) + np.log(uniform) / shape
        top = drawn.max(axis=2, keepdims=True, initial=-np.inf)
        weights = np.exp(drawn - np.where(np.isfinite(top), top, 0.0))
        total = weights.sum(axis=2, keepdims=True)
        new = np.where(moving[:, :, None], weights / np.where(total > 0, total, 1.0), mean)
        return Successors(transitions.states, new)

    def arrays(self) -> dict[str, np.ndarray]:
        """The entries of a file that `from_arrays` reads back; a guess itself is not kept."""
        return {
            "visits": self.visits,
            "concentration": self.concentration,
            "prior_strength": np.array(self.prior.strength),
            "prior_over": np.array(self.prior.kind.value),
            "unvisited": np.array(self.unvisited.value),
            "counted": np.array([self.uncounted, self.episodes, self.deterministic]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Evidence | None:
        """The evidence among these arrays; None where there is none."""
        if "visits" not in arrays:
            return None
        missing = [name for name in ENTRIES if name not in arrays]
        if missing:
            raise InvalidModel(
                f"evidence must hold {', '.join(ENTRIES)}; {missing[0]!r} is missing"
            )
        for name, shape, kinds in (
            ("prior_strength", (), "iuf"),
            ("prior_over", (), "U"),
            ("unvisited", (), "U"),
            ("counted", (3,), "iu"),
        ):
            part = np.asarray(arrays[name])
            if part.shape != shape or part.dtype.kind not in kinds:
                raise InvalidModel(
                    f"{name} must have shape {shape}, as evidence writes it; "
                    f"got {part.dtype} {part.shape}"
                )
        uncounted, episodes, deterministic = (int(number) for number in arrays["counted"])
        return cls(
            arrays["visits"],
            arrays["concentration"],
            Prior(float(arrays["prior_strength"]), str(arrays["prior_over"])),
            unvisited=unvisited_rule(str(arrays["unvisited"])),
            uncounted=uncounted,
            episodes=episodes,
            deterministic=bool(deterministic),
        )

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
        pairs = int(np.isfinite(self.concentration).sum())
        steps = int(self.visits.sum())
        counted = _many(steps, "observed step")
        found = [f"The transitions were estimated from {counted}. {self.prior.sentence}"]
        if self.uncounted:
            found.append(
                f"{_many(self.uncounted, 'last step')} could not be counted: where "
                f"{'it' if self.uncounted == 1 else 'they'} led was not recorded."
            )
        if self.episodes:
            found.append(f"The start was counted from {_many(self.episodes, 'episode')}.")
        over = self.certain if ends is None else self.certain & np.asarray(ends, bool)
        for states, said in (
            (over, "Episodes end in {}, which nothing leaves."),
            (self.certain & ~over, "Nothing leaves {}: time goes on there."),
        ):
            if len(names := [layout.state_name(int(s)) for s in np.flatnonzero(states)]):
                found.append(said.format(listed(names, NAMED)))
        closed = np.isinf(self.concentration) & ~self.certain[:, None]
        if many := int(closed.sum()):
            verb = "pair of state and action is" if many == 1 else "pairs of state and action are"
            found.append(f"{many} {verb} not available, as was said.")
        missing = self.unvisited_pairs
        if len(missing):
            names = [f"{layout.action_name(a)} in {layout.state_name(s)}" for s, a in missing]
            found.append(
                f"{len(missing)} of {pairs} pairs of state and action were never seen "
                f"({listed(names, NAMED)}). {self._filled()}"
            )
        if len(lost := self.never_left):
            names = [layout.state_name(int(s)) for s in lost]
            near = self.prior.kind in (Over.SUCCESSORS, Over.STAY)
            stays = self.unvisited is Unvisited.STAY or near
            rule = "taken to stay for ever" if stays else "filled from the prior alone"
            found.append(f"No step out of {listed(names, NAMED)} was seen: {rule}.")
        if steps:
            found.append(
                f"{self.thin_share:.0%} of the observed steps lie in pairs seen fewer than {THIN} "
                f"times; a step's pair was seen {self.effective_sample_size:.3g} times on average "
                "(harmonic mean)."
            )
        found.append(
            "Errors, intervals and tests of Likelihood count what is not known of these "
            "transitions; other estimators take them for known."
        )
        if self.deterministic and self.prior.strength > 0:
            found.append(
                "Every pair seen twice or more always led to the same state: if this world is "
                "deterministic, a prior of 0 (no pseudo-counts) suits it better."
            )
        return tuple(found)

    def _filled(self) -> str:
        if self.unvisited is Unvisited.STAY:
            return "They were taken to stay where they are."
        places = {
            Over.SUCCESSORS: "each successor seen from their state is taken to be as likely",
            Over.ALL: "every state is taken to be as likely",
            Over.STAY: "they are taken to stay where they are",
            Over.GIVEN: "the given guess of the transitions holds",
        }
        return f"There {places[self.prior.kind]}."


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[str], most: int | None = None) -> str:
    """The items as one phrase: a, b and c; beyond `most` of them, how many more there are."""
    shown = list(items)
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def estimated(
    states: ArrayLike | Demonstrations,
    actions: ArrayLike | None,
    next_states: ArrayLike | None,
    *,
    n_states: int | None,
    n_actions: int | None,
    initial: ArrayLike | None,
    prior: Prior | float | None,
    unvisited: Unvisited | str,
    absorbing: ArrayLike,
    available: ArrayLike | None,
) -> tuple[csr_array, ArrayLike, Evidence, np.ndarray | None]:
    """([S * A, S] transitions, [S] initial distribution, what they rest on, [S, A] available).

    The arguments are those of `MDP.from_transitions`.
    """
    prior, rule = _prior(prior), unvisited_rule(unvisited)
    starts = ends = stays = np.zeros(0, np.int64)
    uncounted, shares = 0, None
    if hasattr(states, "offsets"):
        if actions is not None or next_states is not None:
            raise InvalidDemonstrations("demonstrations hold their own actions and next states")
        whole = cast("Demonstrations", states)
        seen = observed_steps(whole)
        # Steps with an unknown outcome are not counted, but their states and actions exist.
        if n_states is None:
            n_states = max(int(whole.states.max()), int(whole.final_states.max())) + 1
        if n_actions is None:
            n_actions = int(whole.actions.max()) + 1
        starts, ends, stays, uncounted = seen.starts, seen.ends, seen.stays, seen.uncounted
        shares = whole.shares[whole.offsets[:-1][~whole.partial]]
        states, actions, next_states = seen.states, seen.actions, seen.next_states
    columns = cast("tuple[ArrayLike, ArrayLike, ArrayLike]", (states, actions, next_states))
    counts = count_transitions(*columns, n_states=n_states, n_actions=n_actions)
    known = _absorbing(absorbing, stays, counts.states)
    choices = _available(available, ends[~known[ends]], counts)
    transitions, behind = posterior(counts, prior, rule, known, choices)
    counted = len(starts) if initial is None else 0
    visits = counts.visits
    ways = np.bincount(counts.rows, minlength=visits.size).reshape(visits.shape)
    sure = bool((visits >= 2).any() and (ways[visits >= 2] == 1).all())
    evidence = Evidence(
        visits,
        behind,
        prior,
        unvisited=rule,
        uncounted=uncounted,
        episodes=counted,
        deterministic=sure,
    )
    return transitions, _start(initial, starts, shares, counts.states), evidence, choices


def _prior(given: Prior | float | None) -> Prior:
    """The prior; a number is its strength."""
    if given is None or isinstance(given, Prior):
        return given or Prior()
    if isinstance(given, bool) or not isinstance(given, Real):
        raise InvalidModel(
            f"prior must be a Prior, or the pseudo-count of a row; got {given!r:.60}"
        )
    return Prior(float(given))


def _absorbing(given: ArrayLike, ends: np.ndarray, states: int) -> np.ndarray:
    """[S] bool, the states that are said to be left by nothing."""
    listed = np.concatenate([np.atleast_1d(numbers(given, "absorbing", None)), ends])
    if not np.isin(listed, np.arange(states)).all():
        raise InvalidModel(f"absorbing must list states in 0..{states - 1}; got {given!r:.60}")
    return np.isin(np.arange(states), listed)


def _available(
    given: ArrayLike | None, ends: np.ndarray, counts: TransitionCounts
) -> np.ndarray | None:
    """[S, A] bool, as given, with nothing to do where episodes end; None where all is available.

    A pair that was never seen is unknown, not unavailable: only a mask can tell.
    """
    shape = (counts.states, counts.actions)
    if given is None and not len(ends):
        return None
    mask = available_pairs(given, shape)
    seen = np.divmod(counts.rows, counts.actions)
    if (odd := first_unavailable(mask, *seen)) is not None:
        raise InvalidDemonstrations(f"{odd.sentence()}, seen {counts.counts[odd.row]:g} times")
    mask[ends] = False
    return mask


def _start(
    given: ArrayLike | None, starts: np.ndarray, shares: np.ndarray | None, states: int
) -> ArrayLike:
    """[S] the initial distribution: as given, a single state, or counted from first states."""
    if given is None:
        if not len(starts):
            raise InvalidModel(
                "initial must be given, a distribution [S] or the number of a state: no episode "
                "was seen from its start"
            )
        total = np.bincount(starts, shares, states)
        return total / total.sum()
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < states:
            raise InvalidModel(f"initial must be a state in 0..{states - 1}; got {given}")
        return np.arange(states) == given
    return given


def available_pairs(given: ArrayLike | None, shape: tuple[int, int]) -> np.ndarray:
    """[S, A] bool, which actions there are; all where nothing is given."""
    if given is None:
        return np.ones(shape, bool)
    try:
        table = np.array(given)
    except ValueError:
        table = np.array(None)
    if table.shape != shape:
        raise InvalidModel(
            f"available must have shape [S, A] = {shape}, true where the action is there; "
            f"got {table.shape}"
        )
    if table.dtype != bool and not (table.dtype.kind in "iuf" and np.isin(table, (0, 1)).all()):
        raise InvalidModel(f"available must hold true or false (1 or 0); got {table.dtype}")
    return table.astype(bool)
