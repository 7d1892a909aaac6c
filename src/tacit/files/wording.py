"""Names and numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def listed(items: Sequence[str], most: int | None = None) -> str:
    """The items as one phrase: a, b and c; beyond `most` of them, how many more there are."""
    shown = list(items)
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
