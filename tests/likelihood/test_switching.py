"""Kinds that switch from unit to unit: equal to all paths summed up, and to its own differences."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

import tacit
from tacit.likelihood.kinds import KindsChain, StepUnits, problem_of_kinds
from tacit.likelihood.start import Bounds
from tacit.likelihood.switching import (
    Mixing,
    Sequences,
    drawn_kinds,
    passes,
    slopes_of_mixing,
)
from tacit.model.features.design import Design

LENGTHS, KINDS = (4, 1, 3, 4), 2


def sequences(tables: int = 2) -> Sequences:
    """Twelve units in sequences of several lengths, entered by tables in turn."""
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    return Sequences(offsets, np.arange(offsets[-1]) % tables, tables)


def mixing(seed: int = 0, tables: int = 2) -> Mixing:
    rng = np.random.default_rng(seed)
    draws = rng.dirichlet(np.ones(KINDS), size=1 + tables * KINDS)
    return Mixing(draws[0], draws[1:].reshape(tables, KINDS, KINDS))


def paths(order: Sequences, logs: np.ndarray, law: Mixing, e: int) -> dict[tuple, float]:
    """Path of kinds -> its chance together with what was seen, of one sequence."""
    units, found = range(*order.offsets[e : e + 2]), {}
    for path in product(range(KINDS), repeat=len(units)):
        chance = law.start[path[0]]
        for j, k, u in zip(path[:-1], path[1:], units[1:], strict=True):
            chance *= law.switching[order.entered[u], j, k]
        found[path] = chance * np.exp(sum(logs[u, k] for u, k in zip(units, path, strict=True)))
    return found


def test_passes_are_the_sum_over_all_paths():
    order, law = sequences(), mixing()
    logs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=(12, KINDS))[:, :, 0])
    found = passes(order, logs, law)
    for e in range(len(order)):
        each = paths(order, logs, law, e)
        total = sum(each.values())
        assert found.losses[e] == pytest.approx(-np.log(total), abs=1e-12)
        for rank, u in enumerate(range(*order.offsets[e : e + 2])):
            own = [sum(p for path, p in each.items() if path[rank] == k) for k in range(KINDS)]
            np.testing.assert_allclose(found.membership[:, u], np.array(own) / total, atol=1e-12)


def test_a_kind_that_nobody_can_be_of_changes_no_chance():
    law = Mixing(np.array([1.0, 0.0]), np.tile(np.eye(2), (2, 1, 1)))
    logs = np.tile([-800.0, -1.0], (12, 1))  # the other kind would be likelier beyond any number
    found = passes(sequences(), logs, law)
    np.testing.assert_allclose(found.losses, 800.0 * np.array(LENGTHS))
    assert np.isfinite(slopes_of_mixing(sequences(), found)).all()


def test_drawn_kinds_have_the_law_of_what_is_known():
    order, law = sequences(), mixing()
    logs = np.random.default_rng(1).normal(size=(12, KINDS))
    found, rng = passes(order, logs, law), np.random.default_rng(2)
    drawn = np.stack([drawn_kinds(order, found, law, rng) for _ in range(4000)])
    # Four Monte Carlo errors of a chance.
    np.testing.assert_allclose((drawn == 1).mean(axis=0), found.membership[1], atol=0.032)
    each = paths(order, logs, law, 0)
    pair = sum(p for path, p in each.items() if path[1:3] == (0, 1)) / sum(each.values())
    assert ((drawn[:, 1] == 0) & (drawn[:, 2] == 1)).mean() == pytest.approx(pair, abs=0.032)


@cache
def chain(tables: int) -> KindsChain:
    """Two kinds in a small world, steps one after the other."""
    place = tacit.worlds.random(3, states=6, actions=3, constraints=0, features=2)
    policy = np.full((6, 3), 1 / 3)
    seen = tacit.simulate(place.mdp, policy, trajectories=5, steps=8, seed=0)
    seen = tacit.Demonstrations(seen.states[:38], seen.actions[:38], [0, 8, 16, 17, 30, 38])
    units = StepUnits.ordered(place.mdp, Design.of(place.mdp, place.features), seen)
    order = Sequences(seen.offsets, np.arange(38) % tables, tables)
    return KindsChain(units=units, experts=KINDS, following=order, prior=0.3)


@pytest.mark.parametrize("tables", [1, 2])
def test_derivatives_are_those_of_finite_differences(tables):
    own, rng = chain(tables), np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=2 * own.whole.space.size), mixing(0, tables).flat])
    part = own.at(x, own.blank(x), 1e-12)

    def at(direction: np.ndarray):
        return own.at(x + direction, part, 1e-12)

    steps = 1e-5 * np.eye(len(x))
    slopes = [(at(step).loss - at(-step).loss) / 2e-5 for step in steps]
    np.testing.assert_allclose(part.gradient, slopes, atol=1e-7)
    bends = [(at(step).gradient - at(-step).gradient) / 2e-5 for step in steps]
    # The curvature of a kind's own values is the observed one: differences have no other error.
    np.testing.assert_allclose(part.curvature, bends, atol=2e-6 * np.abs(bends).max())
    pulled = 0.3 * np.where(np.arange(len(x)) < len(x) - own.mixed, x, 0.0)
    np.testing.assert_allclose(part.slopes.sum(axis=0) + pulled, part.gradient, atol=1e-10)
    assert np.linalg.eigvalsh(part.convex).min() > -1e-9


def test_without_switching_it_is_the_mixture_of_trajectories():
    """A table of no switches at all makes each sequence of one kind, as a trajectory is."""
    own, rng = chain(1), np.random.default_rng(5)
    order, size = own.sequences, 2 * own.whole.space.size
    joined = np.zeros((len(order), len(own.units)))
    joined[order.number, np.arange(len(own.units))] = 1.0
    from scipy.sparse import csr_matrix

    table = csr_matrix(csr_matrix(joined) @ own.units.table)
    whole = StepUnits(table=table, repeats=np.ones(len(order)), whole=own.whole)
    mixed = KindsChain(units=whole, experts=KINDS, prior=0.3)
    law = Mixing(np.array([0.3, 0.7]), np.eye(2)[None])
    theta = rng.normal(size=size)
    x, y = np.concatenate([theta, law.flat]), np.concatenate([theta, law.start])
    one, other = own.at(x, own.blank(x), 1e-12), mixed.at(y, mixed.blank(y), 1e-12)
    assert one.loss == pytest.approx(other.loss, abs=1e-10)
    both = slice(size + KINDS)
    for name in ("gradient", "slopes"):
        np.testing.assert_allclose(getattr(one, name)[..., both], getattr(other, name), atol=1e-9)
    np.testing.assert_allclose(one.curvature[both, both], other.curvature, atol=1e-8)


def test_tables_that_sum_to_one_are_found_within_the_bounds():
    own = chain(1)
    problem = problem_of_kinds(own, Bounds.of(own.whole.space, tacit.Likelihood(free_reward=True)))
    start = problem.ties.start([np.ones(2), -np.ones(2), mixing(0, 1).flat])
    found = problem.minimum(start, tolerance=1e-9, max_steps=200)
    law = own.mixing(found.parts[0].x)
    assert found.converged
    np.testing.assert_allclose([law.start.sum(), *law.switching.sum(axis=2).ravel()], 1.0)
    assert law.flat.min() >= 0.0
