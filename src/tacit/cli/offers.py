"""What installed packages offer to the command line, by entry points of the standard kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tacit.errors import InvalidModel

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS, ESTIMATORS = "tacit.commands", "tacit.estimators"


def offered(group: str, own: Iterable[str]) -> dict[str, EntryPoint]:
    """Name -> entry point of the group, not loaded; `InvalidModel` where a name is one of our own.

    Args:
        group: the name that packages offer it under, such as tacit.commands.
        own: names that are taken.
    """
    from importlib.metadata import EntryPoint, entry_points

    entries = sorted(entry_points(group=group), key=lambda one: one.name)
    points = {one.name: EntryPoint(one.name, one.value, group) for one in entries}
    if both := sorted(points.keys() & set(own)):
        whose = f"{points[both[0]].value}, an entry point of {group},"
        raise InvalidModel(f"{whose} must have a name of its own; {both[0]!r} is one of tacit's")
    return points


def loaded(offer: EntryPoint) -> type:
    """The class that is offered; `InvalidModel` where it cannot be loaded."""
    try:
        return offer.load()
    except Exception as error:
        broken = f"{type(error).__name__}: {error}"[:200]
        whose = f"{offer.value}, an entry point of {offer.group},"
        raise InvalidModel(f"{whose} cannot be loaded: {broken}") from error
