"""The benchmark's own parts, on tiny problems: a wrong table is worse than none."""

import dataclasses
import importlib
import inspect
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import forward
import tacit


@pytest.fixture(scope="module")
def grid():
    return forward.hill(5, 0.9, seed=0)


@pytest.fixture(scope="module")
def free(grid):
    return grid.wanting(grid.objective.reward)


@pytest.mark.filterwarnings("ignore")  # the peers' deprecations are theirs
def test_every_setting_of_highs_finds_the_value_and_the_multiplier(grid):
    solution = tacit.solve(grid.mdp, grid.objective)
    tried = [(e, settings) for e in forward.CONSTRAINED for settings in e.settings]
    for entrant, settings in tried:
        assert forward.installed(entrant.package), entrant.package
        run, read = entrant.load(grid, settings, 10.0)()
        answer = read(run())
        # HiGHS promises 1e-7 on rows and reduced costs; the interior point ends a little wider.
        assert answer.value == pytest.approx(solution.value, rel=1e-5), settings
        assert answer.multiplier == pytest.approx(solution.multipliers[0], rel=1e-4), settings


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entrant", forward.UNCONSTRAINED, ids=lambda e: e.name)
def test_every_setting_of_a_peer_finds_an_optimal_policy(entrant, free):
    if not forward.installed(entrant.package):
        pytest.skip(f"{entrant.package} is not installed")
    run, read = forward.TACIT.load(free, {}, 10.0)()
    reference = read(run())
    for settings in entrant.settings:
        run, read = entrant.load(free, settings, 10.0)()
        errors = forward.accuracy(free, read(run()), reference)
        # Each was asked for 1e-6, in values of order 0.1.
        assert errors["policy"] <= 1e-5, settings
        if entrant.name != "pymdptoolbox":  # it stops by the span: its values may be off
            assert errors["values"] <= 1e-5, settings


def test_own_accuracy_is_a_bound_that_sees_a_wrong_answer(free):
    run, read = forward.TACIT.load(free, {}, 10.0)()
    answer = read(run())
    assert forward.accuracy(free, answer, answer)["values"] <= 1e-9  # the solver's tolerance
    wrong = dataclasses.replace(answer, values=answer.values * 1.1)
    # Adding a tenth everywhere leaves a residual that promises no less than the true error.
    assert forward.accuracy(free, wrong, wrong)["values"] >= 0.01


def test_nested_lists_hold_every_successor_and_no_padding(grid):
    lists = forward.nested_lists(grid.mdp)
    dense = np.zeros_like(grid.mdp.dense())
    for s, actions in enumerate(lists["tranMatProbs"]):
        for a, probabilities in enumerate(actions):
            assert min(probabilities) > 0
            dense[s, a, lists["tranMatColumns"][s][a]] = probabilities
    assert np.array_equal(dense, grid.mdp.dense())


def steps(*durations):
    """A `fresh` whose runs take these seconds, one after another."""
    left = list(durations)
    return lambda: (lambda: time.sleep(left.pop(0)), lambda _: forward.Answer(value=len(left)))


def test_the_first_run_is_not_the_best_one_even_if_it_is_the_quickest():
    timing = forward.measure(steps(0.0, 0.07, 0.06), repeats=2, slow=1.0, cap=5.0)
    assert len(timing.times) == 3
    assert timing.times[0] < 0.06 <= timing.best == min(timing.times[1:])


def test_a_slow_run_is_not_repeated_and_a_run_past_the_cap_is_a_lower_bound():
    timing = forward.measure(steps(0.05, 0.0), repeats=5, slow=0.01, cap=5.0)
    assert len(timing.times) == 1
    timing = forward.measure(steps(0.01, 5.0), repeats=5, slow=1.0, cap=0.1)
    assert timing.answer.status == "capped"
    assert timing.best == 0.1


def missing(dotted: str) -> bool:
    """Whether a name that begins with tacit leads nowhere, as far as modules and classes go."""
    house, *parts = dotted.split(".")
    value: object = importlib.import_module(house)
    for part in parts:
        if inspect.ismodule(value) and not hasattr(value, part):
            try:
                importlib.import_module(f"{value.__name__}.{part}")
            except ImportError:
                return True
        if not (inspect.ismodule(value) or inspect.isclass(value)):
            return False
        # A field of a dataclass without a default is no attribute of the class.
        if not hasattr(value, part):
            return part not in getattr(value, "__dataclass_fields__", {})
        value = getattr(value, part)
    return False


def test_every_name_of_the_package_that_a_benchmark_uses_is_there():
    """They are too slow to run here: a moved name would be found an hour into a measurement."""
    found, seen = [], 0
    for path in sorted(Path(forward.__file__).parent.glob("*.py")):
        text = path.read_text("utf-8")
        names = re.findall(r"(?<![\w/.\"])tacit(?:\.[A-Za-z_]\w*)+", text)
        imported = (
            r"from (tacit[\w.]*) import (?:\(([\w,\s]+)\)|([\w, ]+))"  # several lines, or one
        )
        for module, several, one in re.findall(imported, text):
            words = [name.partition(" as ")[0].strip() for name in (several or one).split(",")]
            names += [f"{module}.{name}" for name in words if name]
        seen += len(names)
        found += [f"{path.name}: {name}" for name in sorted(set(names)) if missing(name)]
    assert not found
    assert seen > 100
    assert missing("tacit.worlds.nowhere")
    assert missing("tacit.nowhere")


def row(solver, seconds, states=10_000, task="constrained", **more):
    return forward.Row("hill", states, 4, 0.99, task, solver, seconds=seconds, **more)


def test_targets_are_judged_against_the_faster_method_and_by_their_accuracy():
    ours = row("tacit", 0.1)
    exact, rough = {"value": 1e-9, "multiplier": 1e-8}, {"value": 1e-9, "multiplier": 1e-3}
    slow = row("HiGHS interior point", 90.0, errors=exact)
    for quick, reached in (
        (row("HiGHS simplex", 20.0, errors=exact), True),
        (row("HiGHS simplex", 5.0, errors=exact), False),
        (row("HiGHS simplex", 20.0, errors=rough), False),
    ):
        (target,) = forward.targets([ours, slow, quick])
        assert target.reached is reached
        assert "HiGHS simplex" in target.measured
    (target,) = forward.targets([ours, row("HiGHS simplex", 100.0, status="capped")])
    assert not target.reached  # a lower bound on its time, and no answer to agree with
    assert target.measured.startswith("more than")


def test_a_million_states_need_the_certificate_and_the_memory():
    certificate = dict.fromkeys(("flow_residual", "violation", "duality_gap", "slackness"), 1e-9)
    small = row("tacit", 0.1)
    good = row("tacit", 20.0, 1_000_000, certificate=certificate, peak_gib=2.0)
    assert all(t.reached for t in forward.targets([small, good]))
    for worse in (
        {"peak_gib": 9.0},
        {"certificate": {**certificate, "duality_gap": 1e-3}},
        {"seconds": 50.0},  # time per state grows five times
    ):
        found = forward.targets([small, dataclasses.replace(good, **worse)])
        assert [t.reached for t in found].count(False) == 1


def test_the_file_names_the_command_the_versions_and_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/forward.py", "--cap", "10"])
    path = tmp_path / "results" / "forward.json"
    rows = [row("tacit", 0.1)]
    forward.save(path, rows, forward.targets(rows), {"machine": forward.machine()})
    report = json.loads(path.read_text())
    assert report["command"] == "python benchmarks/forward.py --cap 10"
    assert {"python", "tacit-irl", "numpy"} <= set(report["versions"])
    assert {"cpu", "cores", "memory_gib"} <= set(report["machine"])
    assert report["rows"][0]["seconds"] == 0.1


def test_a_setting_that_fails_quickly_is_not_the_fastest(free):
    def pretend(problem, settings, cap):
        status = "failed" if settings["quick"] else "done"
        return lambda: (
            lambda: time.sleep(0.0 if settings["quick"] else 0.06),
            lambda _: forward.Answer(status=status),
        )

    entrant = forward.Entrant("peer", "tacit-irl", pretend, ({"quick": True}, {"quick": False}))
    (winner,), tried = forward.fastest(entrant, free, forward.Args())
    assert winner == {"quick": False}
    assert list(tried) == ["quick=True (failed)", "quick=False"]


def test_a_failure_is_no_lower_bound():
    failed = row("HiGHS simplex", 100.0, status="failed")
    assert forward.targets([row("tacit", 0.1), failed]) == []
