"""Small problems do not drown in overhead: a loss with its derivatives is one compiled call.

Every program is handed to JAX at one door, `compiled_in_double`, whose calls are counted; none of
JAX's own operations may run outside of it. The exact solver's are counted at its own door.
"""

import sys

import numpy as np
import pytest

import tacit
from tacit.data.tally import tally_of
from tacit.forward import column_generation
from tacit.likelihood import lockstep
from tacit.likelihood.problem import LikelihoodProblem
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.steps import StepsChain
from tacit.model.features.design import Design
from tacit.search import smooth_dual

WORLD = tacit.worlds.hill_grid(seed=0, tightness=0.5)
NOISY = tacit.SoftDual(temperature=0.0025)
DOORS = [
    (smooth_dual, "point_there"),
    (smooth_dual, "point_at"),
    (smooth_dual, "loss_at"),
    (lockstep, "_evaluated"),
]


@pytest.fixture
def calls(monkeypatch):
    """The compiled calls made so far, by name."""
    made = []
    for home, name in DOORS:
        inner = getattr(home, name)

        def counted(*given, inner=inner, name=name, **more):
            made.append(name)
            return inner(*given, **more)

        counted.__wrapped__ = inner.__wrapped__
        for module in [m for n, m in sys.modules.items() if n.startswith("tacit")]:
            if getattr(module, name, None) is inner:
                monkeypatch.setattr(module, name, counted)
    return made


def test_an_evaluation_of_a_soft_solve_is_one_program(calls):
    evaluations = NOISY.solve(WORLD.mdp, WORLD.truth).iterations
    assert evaluations > 3
    assert calls == ["point_there"] * evaluations


def test_a_gradient_with_its_hessian_is_one_program(calls):
    space = Design.of(WORLD.mdp, WORLD.features)
    chain = StepsChain.matching(WORLD.mdp, space, np.zeros((WORLD.mdp.states, WORLD.mdp.actions)))
    x = np.ones(space.size)
    point = chain.at(x, chain.blank(x), 1e-9)
    assert np.isfinite(point.curvature).all()
    assert calls == ["point_at"]


def test_an_evaluation_of_a_likelihood_is_one_program(calls):
    policy = NOISY.solve(WORLD.mdp, WORLD.truth).policy
    seen = tacit.simulate(WORLD.mdp, policy, trajectories=200, steps=100, seed=0)
    chain = StepsChain.of(WORLD.mdp, Design.of(WORLD.mdp, WORLD.features), seen)
    problem = LikelihoodProblem.of(chain, np.zeros(6), np.full(6, LARGEST))
    calls.clear()
    found = problem.minimum(np.zeros(6), tolerance=1e-9, max_steps=300)
    assert found.converged
    assert calls == ["point_there"] * found.steps


@pytest.mark.parametrize("problems", [1, 200])
def test_a_batch_takes_as_many_programs_as_one_problem(calls, problems):
    policy = NOISY.solve(WORLD.mdp, WORLD.truth).policy
    seen = tacit.simulate(WORLD.mdp, policy, trajectories=50, steps=100, seed=0)
    one = tally_of(WORLD.mdp, seen).visitation(np.zeros(WORLD.mdp.states, bool))
    every = np.repeat(one[None], problems, axis=0)
    calls.clear()
    found = tacit.many.recover_many(WORLD.mdp, WORLD.features, every, estimator=tacit.Convex())
    # One an evaluation; the curvature says that larger parameters are no better.
    assert calls == ["_evaluated"] * int(found.steps.max())


def test_an_exact_solve_is_one_search(monkeypatch):
    calls = []
    inner = column_generation.search
    monkeypatch.setattr(column_generation, "search", lambda *a: (calls.append(1), inner(*a))[1])
    solution = tacit.solve(WORLD.mdp, WORLD.truth)
    assert solution.multipliers[0] > 0
    assert solution.iterations > 2  # unconstrained problems, all inside the one call
    assert len(calls) == 1
