"""How far apart two tables are, once what no behaviour can tell is taken out of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidModel
from tacit.forward.visitation import policy_values
from tacit.mdp import MDP
from tacit.objective import Objective

# A canonical table this small against what was subtracted to make it is rounding: the linear solve
# behind it is exact to about 1e-14 of its right side, and its condition is 1 / (1 - discount).
ROUNDING = 1e-12


def full_table(mdp: MDP, table: Any) -> np.ndarray:
    """[S, A] the table, given as [S] or [S, A], checked against the model."""
    return Objective(table).tables(mdp)[0]


def canonical(mdp: MDP, table: Any) -> np.ndarray:
    """[S, A] the table less its potential: table + discount * P V - V.

    V is the uniform policy's value of the table. Two tables have the same canonical form exactly
    when they differ by potential shaping, discount * P f - f for some f [S]; a constant is such a
    shaping. Shaping changes the return of every policy by the same amount, so no behaviour can tell
    the two apart. Linear in the table, and exactly 0 where only rounding is left.

    Args:
        mdp: the model.
        table: [S] or [S, A] a reward or a cost.
    """
    given = full_table(mdp, table)
    # A constant is shaping: taking it out first spares digits.
    centred = given - given.mean()
    uniform = np.full((mdp.states, mdp.actions), 1.0 / mdp.actions)
    values = policy_values(mdp, uniform, centred)
    shaped = centred + mdp.discount * mdp.expected_next(values) - values[:, None]
    size = (np.abs(given).max() + np.abs(values).max()) / (1.0 - mdp.discount)
    return shaped if np.abs(shaped).max() > ROUNDING * size else np.zeros_like(shaped)


def canonical_norm(mdp: MDP, table: Any) -> float:
    """The unweighted L2 norm over (s, a) of the canonical table. Range [0, inf)."""
    return float(np.linalg.norm(canonical(mdp, table)))


def starc(mdp: MDP, first: Any, second: Any) -> float:
    """The STARC distance 0.5 * || c1 / ||c1|| - c2 / ||c2|| || of two rewards. Range [0, 1].

    c1 and c2 are the canonical tables and the norm is the unweighted L2 norm over (s, a); a table
    whose norm is 0 stays the zero vector. Symmetric. 0 exactly when the two differ by positive
    scale, constant shift and potential shaping only; 0.5 between a reward that wants something and
    one that wants nothing; 1 between opposites.

    Args:
        mdp: the model.
        first: [S] or [S, A].
        second: [S] or [S, A].
    """
    gap = _direction(canonical(mdp, first)) - _direction(canonical(mdp, second))
    return float(min(1.0, 0.5 * np.linalg.norm(gap)))


def correlation(first: Any, second: Any) -> float:
    """Pearson's correlation of two tables of one shape. Range [-1, 1]; NaN if one is constant.

    Symmetric, invariant to positive scale and to constant shift, not to shaping. Smooth tables on
    one grid correlate whatever they mean: read it beside the same number for random weights.
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    if first.shape != second.shape:
        raise InvalidModel(f"tables must have one shape; got {first.shape} and {second.shape}")
    one, other = _deviation(first), _deviation(second)
    if not one.any() or not other.any():
        return float("nan")
    return float(np.clip(np.vdot(_direction(one), _direction(other)), -1.0, 1.0))


def _deviation(table: np.ndarray) -> np.ndarray:
    """The table less its mean; 0 where the rest is rounding of the mean."""
    rest = table - table.mean()
    return rest if np.abs(rest).max() > 1e-14 * np.abs(table).max() else np.zeros_like(rest)


def _direction(table: np.ndarray) -> np.ndarray:
    """The table scaled to L2 norm 1, or all zeros."""
    size = np.abs(table).max()
    if size == 0.0:
        return table
    table = table / size  # squares of very small or very large entries stay in range
    return table / np.linalg.norm(table)
