"""Small problems wait for no compiler, and what is compiled later gives the same numbers."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.engine import kernels as loops
from tacit.engine.backends import DENSE_LIMIT, Direct, backend_of
from tacit.engine.kernels import chains
from tacit.folders.problem import Problem
from tacit.search.smooth_dual import Dual, evaluate, point_at
from text_form import save_text

# (states, actions, next states or 0 for all, whether some actions are missing, constraints)
KINDS = (
    (7, 3, 0, False, 1),
    (7, 3, 2, True, 1),
    (33, 4, 3, False, 0),
    (40, 3, 3, True, 2),
    (65, 2, 0, True, 1),
    (130, 3, 2, False, 1),
    (200, 2, 4, False, 1),
)

# What a process does that must not load a compiler; every attempt to is recorded. To load one and
# to compile takes longer than a small problem does. SciPy is exempt: every fit asks for its
# distributions, roots and least squares, and it is loaded in .3 s of a core.
CHILD = """
import json, sys

class Watch:
    asked = []

    def find_spec(self, name, path=None, target=None):
        if name in ("jax", "numba"):
            self.asked.append(name)
            raise ImportError(name)
sys.meta_path.insert(0, Watch())
import numpy as np
import tacit
from tacit.cli import main

world = tacit.worlds.hill_grid(seed=0, tightness=0.5)
exact = tacit.solve(world.mdp, world.truth)
free = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
noisy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.0025))
seen = tacit.simulate(world.mdp, noisy.policy, trajectories=40, steps=50, seed=0)
found = tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood())
folder, run = sys.argv[1:]
code = main(["recover", folder, "--out", run, "--quiet"])
numbers = [exact.policy, exact.multipliers, free.values]
assert np.isfinite(found.parameters.standard_errors).any()
said = {"asked": Watch.asked, "code": code,
        "numbers": [[float(x).hex() for x in np.ravel(part)] for part in numbers]}
print(json.dumps(said))
"""


def drawn(kind, seed):
    """A random model of a kind, with an objective."""
    states, actions, width, masked, constraints = kind
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(states, 0.5), size=(states, actions))
    if width:
        keep = np.argsort(rng.random(table.shape), axis=2) < width
        table = np.where(keep, table + 1e-3, 0.0)
        table /= table.sum(axis=2, keepdims=True)
    there = rng.random((states, actions)) < 0.7 if masked else np.ones((states, actions), bool)
    there[:, 0] = True
    discount = float(rng.choice([0.5, 0.9, 0.99]))
    mdp = tacit.MDP(table, rng.dirichlet(np.ones(states)), discount, available=there)
    costs = rng.random((constraints, states, actions))
    budgets = np.full(constraints, 0.45 / (1 - discount))
    return mdp, tacit.Objective(rng.normal(size=(states, actions)), costs, budgets)


def numbers(solution):
    """The arrays of a solution."""
    s = solution
    return [s.policy, s.visitation, s.values, s.multipliers, np.array([s.value]), s.spent]


@pytest.fixture
def plainly(monkeypatch):
    """Nothing is compiled, however long it takes."""
    monkeypatch.setattr(loops.Clock, "started", False)
    monkeypatch.setattr(loops, "ALLOWANCE", np.inf)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_arrays_and_compiled_loops_give_the_same_bits(kind, plainly, monkeypatch):
    for seed in range(2):
        mdp, objective = drawn(kind, seed)
        monkeypatch.setattr(loops.Clock, "started", False)
        assert loops.runs_plainly(mdp.states)
        one = tacit.solve(mdp, objective, throw=False)
        monkeypatch.setattr(loops, "ALLOWANCE", 0.0)
        assert not loops.runs_plainly(mdp.states)
        other = tacit.solve(mdp, objective, throw=False)
        monkeypatch.setattr(loops, "ALLOWANCE", np.inf)
        assert one.status is other.status
        for a, b in zip(numbers(one), numbers(other), strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("transposed", [False, True])
def test_elimination_in_blocks_is_elimination_and_keeps_its_bits(transposed):
    rng = np.random.default_rng(3)
    states = rng.integers(0, 50, size=(50, 4)).astype(np.int32)  # next states that repeat
    weights = rng.dirichlet(np.ones(4), size=50)
    factors = chains.eliminate_arrays(states, weights, 0.97, transposed)
    assert np.array_equal(factors, chains.eliminate.machine(states, weights, 0.97, transposed))
    right, one, other = rng.normal(size=50), np.empty(50), np.empty(50)
    chains.substitute_arrays(factors, right, one)
    chains.substitute.machine(factors, right, other)
    assert np.array_equal(one, other)
    matrix = np.eye(50)
    np.subtract.at(matrix, (np.arange(50)[:, None], states), 0.97 * weights)
    expected = np.linalg.solve(matrix.T if transposed else matrix, right)
    np.testing.assert_allclose(one, expected, rtol=1e-11)  # conditioned like 1 / 0.03


def test_singular_chains_are_refused_alike():
    states, weights = np.zeros((2, 1), np.int32), np.ones((2, 1))
    for run in (chains.eliminate_arrays, chains.eliminate.machine):
        with pytest.raises(ZeroDivisionError):
            run(states, weights, 1.0, False)


def test_a_process_asks_for_a_compiler_in_the_end(monkeypatch):
    monkeypatch.setattr(loops.Clock, "started", False)
    monkeypatch.setattr(loops.Clock, "spent", 0.0)
    with loops.at_hand(loops.SMALL):
        assert getattr(loops._here, "plainly", False)
    assert loops.Clock.spent > 0.0
    assert not loops.runs_plainly(loops.SMALL + 1)
    monkeypatch.setattr(loops.Clock, "spent", 2 * loops.ALLOWANCE)
    assert not loops.runs_plainly(2)
    with loops.at_hand(2):
        assert not getattr(loops._here, "plainly", False)


@pytest.mark.parametrize("kind", [(7, 3, 2, True, 1), (65, 2, 0, True, 2)], ids=str)
def test_numpy_and_jax_hold_the_same_model(kind):
    import jax

    mdp, objective = drawn(kind, 0)
    reward, costs = objective.tables(mdp)
    numpy, batch = Direct(mdp), backend_of(mdp, whole=True)
    size, rng = len(costs), np.random.default_rng(1)
    nothing = np.zeros(size)
    dual = Dual(
        start=mdp.initial, discount=mdp.discount, temperature=0.3, base=reward, tables=-costs,
        target=-objective.budgets, unit=np.ones(size), scale=np.ones(size),
        information=np.zeros(mdp.states), lower=nothing, upper=nothing + np.inf, ridge=nothing,
    )  # fmt: skip
    x = rng.random(size)
    one = evaluate(numpy, dual, x, np.zeros(mdp.states), 1e-9)
    other = point_at(batch, dual, x, np.zeros(mdp.states), 1e-9)
    for name, a, b in zip(one._fields, one, other, strict=True):
        if name != "residual":
            # Values are 1 / (1 - discount) large, and so is their rounding.
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=name)
    table = rng.random((mdp.states, mdp.actions))
    with jax.enable_x64(True):
        np.testing.assert_allclose(numpy.inflow(table), batch.inflow(table), rtol=1e-12)


def test_the_first_answers_load_no_compiler(tmp_path):
    """And are those of a process that has compiled all."""
    world = tacit.worlds.hill_grid(seed=0, tightness=0.5)
    assert world.mdp.states <= loops.SMALL < DENSE_LIMIT
    policy = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.0025)).policy
    seen = tacit.simulate(world.mdp, policy, trajectories=20, steps=30, seed=0)
    folder = tmp_path / "problem"
    save_text(Problem(world.mdp, world.features, seen), folder)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["asked"] == []
    assert said["code"] == 0
    assert (tmp_path / "run" / "report.html").exists()
    exact = tacit.solve(world.mdp, world.truth)
    free = tacit.solve(world.mdp, tacit.Objective(world.truth.reward))
    mine = (exact.policy, exact.multipliers, free.values)
    for part, told in zip(mine, said["numbers"], strict=True):
        assert [float(x).hex() for x in np.ravel(part)] == told
