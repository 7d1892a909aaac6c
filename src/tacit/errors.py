"""What can go wrong, by name. Every error tacit raises on purpose is a `TacitError`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class TacitError(Exception):
    """Something a caller can act upon, in one line: what must hold, what was got, where."""


class InvalidModel(TacitError, ValueError):
    """An MDP, an objective, features or a hyperparameter that cannot be what it claims to be."""


class InvalidDemonstrations(TacitError, ValueError):
    """Demonstrations that cannot have happened, or do not fit the model they are used with."""


class Infeasible(TacitError):
    """No policy meets the budgets, and `solution` carries the proof.

    Attributes:
        solution: the `Solution` of least violation; `solution.infeasibility` proves the claim.
    """

    def __init__(self, message: str, solution: Any) -> None:
        super().__init__(message)
        self.solution = solution

    @property
    def policy(self):
        """[S, A] the policy whose largest violation is smallest."""
        return self.solution.policy

    @property
    def cost(self):
        """[K] what that policy spends."""
        return self.solution.spent


class NotConverged(TacitError):
    """The tolerance was missed; `result` is what was reached, with its honest certificate.

    Attributes:
        result: the `Solution` or `Recovery` as it stood when the solver stopped.
    """

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


def optional(module: str, needs: str, extra: str, error: type[TacitError] = InvalidModel) -> Any:
    """A module that need not be installed; one line, which begins with `needs`, where it is not.

    Args:
        module: to import.
        needs: such as "a GeoTIFF needs Pillow".
        extra: of tacit that brings it.
        error: to raise.
    """
    try:
        return import_module(module)
    except ImportError:
        install = f"pip install '.[{extra}]' in a copy of tacit's repository"
        raise error(f"{needs}, which is not installed: {install}") from None
