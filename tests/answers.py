"""Whether two runs came to the same answer."""

import json
from pathlib import Path

import numpy as np

import tacit

NUMBERS = ("reward_weights", "multipliers", "budgets", "log_likelihood")


def check_same(one: tacit.Recovery, other: tacit.Recovery) -> None:
    """Raises `AssertionError` unless they are the same to the tolerance of the searches.

    The searches end within 1e-9 of their minimum, relative to the number of steps: 1e-6 of a number
    and 1e-5 of an interval are far within what the data tell, and far beyond what is left.
    """
    assert one.status is other.status, f"{one.status.name}, {other.status.name}"
    kinds = [[f.kind.name for f in each.identification.findings] for each in (one, other)]
    assert kinds[0] == kinds[1], kinds
    for name in NUMBERS:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-9, err_msg=name
        )
    intervals = [each.identification.reward_intervals for each in (one, other)]
    np.testing.assert_allclose(*intervals, atol=1e-5, err_msg="intervals")


def units_of(folder: Path) -> dict[str, object]:
    """Every unit of a study, the seconds left out: all that may differ from run to run."""

    def timeless(value):
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "checksum")}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    found = sorted((folder / "units").glob("*.json"))
    return {path.name: timeless(json.loads(path.read_text())) for path in found}
