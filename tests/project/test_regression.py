"""The regression check bites, and a run that was stopped is a bound."""

import sys

import pytest

import plots
import regression
import tables


def test_a_capped_run_is_a_bound_and_a_skipped_one_a_dash():
    row = {"status": "capped", "seconds": 100.0}
    assert tables.cell(row) == ">\u00a0100\u00a0s"
    assert tables.cell({"status": "skipped", "seconds": None}) == "–"
    assert tables.cell(None) == "–"
    runs = (result("peer", 2.0), result("peer", 9.0, "capped"), result("peer", None, "skipped"))
    rows = [run | {"states": states} for run, states in zip(runs, (1, 10, 100), strict=True)]
    (line,) = plots.solvers(rows, "constrained", 0.95)
    assert (line.points, line.bounds) == (((1, 2.0),), ((10, 9.0),))


def test_times_are_shown_in_the_unit_they_are_read_in():
    times = {1.5: "1.5 s", 0.0123: "12.3 ms", 4.5e-5: "45 µs", 1234.0: "1234 s", None: "–"}
    shown = {seconds: tables.duration(seconds).replace(tables.JOIN, " ") for seconds in times}
    assert shown == times


def result(solver, seconds, status="done", problem="hill 5x5", task="constrained"):
    return {
        "problem": problem,
        "discount": 0.95,
        "task": task,
        "solver": solver,
        "seconds": seconds,
        "status": status,
    }


KEY = ("hill 5x5", 0.95, "constrained", "HiGHS")


def test_ratios_are_of_finished_rows_of_the_same_problem():
    rows = [
        result("tacit", 0.5),
        result("HiGHS", 2.0),
        result("slow", 100.0, "capped"),
        result("absent", None, "skipped"),
        result("HiGHS", 7.0, problem="other"),  # tacit has no row there
    ]
    assert regression.ratios(rows) == {KEY: 4.0}


def test_a_ratio_may_fall_by_three_tenths():
    for now, fell in ((10.0, False), (7.1, False), (6.9, True), (15.0, False)):
        assert bool(regression.falls({KEY: 10.0}, {KEY: now})) is fell, now


def test_a_machine_twice_as_slow_is_no_regression_and_a_slower_tacit_is():
    def rows(ours, theirs):
        return regression.ratios([result("tacit", ours), result("HiGHS", theirs)])

    assert not regression.falls(rows(0.1, 1.0), rows(0.2, 2.0))
    (fall,) = regression.falls(rows(0.1, 1.0), rows(0.2, 1.0))
    assert "hill 5x5, 0.95, constrained, against HiGHS" in str(fall)
    assert "50% lost" in str(fall)


def test_rows_known_to_one_side_only_are_not_compared():
    assert regression.falls({KEY: 10.0}, {("new", 0.95, "t", "p"): 0.1}) == []


def test_only_what_stays_down_counts():
    noisy = iter([{KEY: 5.0}, {KEY: 9.0}, {KEY: 0.0}])
    assert regression.judged({KEY: 10.0}, lambda: next(noisy)) == ([], 1)
    assert next(noisy) == {KEY: 0.0}  # it did not go on once nothing was fallen
    (fall,), compared = regression.judged({KEY: 10.0}, lambda: {KEY: 5.0})
    assert (fall.now, compared) == (5.0, 1)


def test_nothing_to_compare_is_no_success():
    with pytest.raises(SystemExit, match="no row"):
        regression.judged({KEY: 10.0}, dict)


def test_a_fall_ends_the_script_with_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regression.py"])
    rows = [result("tacit", 0.1), result("HiGHS", 1.0)]
    monkeypatch.setattr(regression, "committed", lambda path: {"rows": rows})
    monkeypatch.setattr(regression, "quick_run", lambda: {KEY: 5.0})
    with pytest.raises(SystemExit) as stop:
        regression.main()
    assert stop.value.code == 1
    assert "against HiGHS" in capsys.readouterr().out
    monkeypatch.setattr(regression, "quick_run", lambda: {KEY: 9.0})
    regression.main()


def test_a_slowdown_is_the_median_of_the_rounds_not_the_ratio_of_their_sums():
    """A round in which both were slow counts as one round."""
    row = regression.slowdown("soft", False, [(1.0, 2.0), (100.0, 100.0), (1.0, 3.0)])
    assert (row["ratio"], row["least_and_largest"], row["least_over_least"]) == (2.0, [1.0, 3.0], 2)
    assert (row["then_ms"], row["now_ms"]) == (1e3, 3e3)


def test_two_checkouts_are_asked_by_turns(monkeypatch):
    """The first of a round is the second of the next; both processes end."""
    asked, ended = [], []

    class Worker:
        def __init__(self, place):
            self.place = place

        def kill(self):
            ended.append(self.place)

        def wait(self):
            pass

    def told(worker, word=None):
        if word is None:
            return ["a solve"]
        asked.append(worker.place)
        return 1.0 if worker.place == "then" else 1.5

    monkeypatch.setattr(regression, "started", lambda place, *_: Worker(place))
    monkeypatch.setattr(regression, "told", told)
    (row,) = regression.beside("then", "now", jax_before=True, rounds=2, only="solve")
    assert (row["case"], row["ratio"]) == ("a solve", 1.5)
    assert asked == ["then", "now", "now", "then"]
    assert ended == ["then", "now"]


def test_quick_rows_are_in_the_committed_results():
    """Otherwise the check would compare nothing at the sizes that it runs."""
    known = {key[0] for key in regression.ratios(tables.results()["forward"]["rows"])}
    assert {"hill 5x5", "hill 32x32", "random 300"} <= known
