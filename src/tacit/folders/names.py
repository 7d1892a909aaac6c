"""How the files of a problem call states and actions; plain numbers where they have no names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tacit.model.layout import looks_numeric, lookup

if TYPE_CHECKING:
    from tacit.model.layout import Layout
    from tacit.model.mdp import MDP


@dataclass(frozen=True)
class Names:
    """How states and actions are called, in their order; plain numbers where they have no names.

    Attributes:
        states: one name a state; empty where no file has said them yet.
        actions: one name an action, likewise.
        sources: the files that name states, and actions, for messages.
    """

    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    sources: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, mdp: MDP, layout: Layout, source: str = "") -> Names:
        """What the states and actions of a model are called: as the layout says, or numbers."""
        states = layout.state_names or numbers(mdp.states)
        return cls(states, layout.action_names or numbers(mdp.actions), (source, source))

    @cached_property
    def state_numbers(self) -> dict[str, int]:
        """The number of each state, by name."""
        return lookup(self.states)

    @cached_property
    def action_numbers(self) -> dict[str, int]:
        """The number of each action, by name."""
        return lookup(self.actions)

    @property
    def shape(self) -> tuple[int, int]:
        """S and A."""
        return len(self.states), len(self.actions)


def numbers(count: int) -> tuple[str, ...]:
    """The names 0, 1, ... of states or actions without names."""
    return tuple(map(str, range(count)))


def are_numbers(names: Iterable[str]) -> bool:
    """Whether these names are just 0, 1, ..., each once, in any order."""
    listed = list(names)
    return len(listed) > 0 and set(listed) == set(numbers(len(listed)))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names as found, or sorted where they are just numbers."""
    listed = tuple(names)
    return numbers(len(listed)) if are_numbers(listed) else listed


def to_look_up(names: tuple[str, ...], *, places: bool) -> tuple[str, ...]:
    """The names that demonstrations may give; none where they give numbers.

    Args:
        names: of states or of actions.
        places: whether numbers are always places, 0 the first; else numbers may be names where
            states or actions are called 1, 2, 3 or 10, 20, 30.
    """
    odd = places and any(map(looks_numeric, names))
    return () if odd or are_numbers(names) else names
