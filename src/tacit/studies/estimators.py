"""The estimators a study compares, by name; one that cannot be imported is simply absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tacit.worlds.world import World

RULES, CALIBRATED = "Algorithm 1, as published", "Algorithm 1, calibrated budget"
SLIDES, EXPLANATION = "Algorithm 1, bound of the slides", "Explanation set"
MATCHING, LIKELIHOOD = "Feature matching (Convex)", "Step likelihood"
REWARD_ONLY = "Reward only"
RANDOM = "Random weights"


@dataclass(frozen=True)
class Entry:
    """One estimator of the table.

    Attributes:
        name: for people and for files.
        needs: modules without which it is absent.
        make: (world, seed) -> the estimator.
    """

    name: str
    needs: tuple[str, ...]
    make: Callable[[World, int], Any]

    @property
    def present(self) -> bool:
        """Whether this version of tacit has it."""
        return all(find_spec(module) is not None for module in self.needs)


def _named(module: str, name: str) -> Any:
    return getattr(import_module(f"tacit.inverse.{module}"), name)


def _published(**options: Any) -> Callable[[World, int], Any]:
    return lambda _, seed: _named("paper.alternating", "Alternating").published(
        seed=seed, **options
    )


_ALTERNATING = ("tacit.inverse.paper.alternating", "tacit.inverse.paper.report")
TABLE = (
    Entry(RULES, _ALTERNATING, _published()),
    Entry(SLIDES, _ALTERNATING, _published(bound="demonstrations")),
    Entry(
        CALIBRATED,
        _ALTERNATING,
        lambda _, seed: _named("paper.alternating", "Alternating")(seed=seed),
    ),
    Entry(
        EXPLANATION,
        ("tacit.inverse.optimal.explanation",),
        lambda *_: _named("optimal.explanation", "Explanation")(),
    ),
    Entry(MATCHING, ("tacit.inverse.noisy.convex",), lambda *_: _named("noisy.convex", "Convex")()),
    Entry(
        LIKELIHOOD,
        ("tacit.inverse.noisy.likelihood",),
        lambda *_: _named("noisy.likelihood", "Likelihood")(),
    ),
    Entry(
        REWARD_ONLY,
        ("tacit.inverse.families.baselines",),
        lambda *_: _named("families.baselines", "RewardOnly")(),
    ),
)


def available() -> tuple[Entry, ...]:
    """The entries that this version of tacit has, in order."""
    return tuple(entry for entry in TABLE if entry.present)


def entry_named(name: str) -> Entry | None:
    """The entry of that name if it is available."""
    return next((entry for entry in available() if entry.name == name), None)
