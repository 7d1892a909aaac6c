"""One line hands the work to a Dask cluster: the same results, also when a worker is killed."""

import os
import re
import signal
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tacit
from answers import units_of
from experts import grid, hill_expert
from gates import Gate, Gated, gated_tally
from tacit import many
from tacit.data import observed
from tacit.engine import each
from tacit.likelihood import lockstep
from tacit_lab.studies import StudySettings
from tacit_lab.studies import reproduce as studies

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    """A real cluster on this machine: a scheduler and two worker processes of one thread."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert len(pids(client)) == 2
        assert os.getpid() not in pids(client)
        yield client


def pids(client) -> set[int]:
    """The processes of the workers."""
    return set(client.run(os.getpid).values())


class Killer:
    """Like `each`, but kills a worker that is busy as soon as the first result is there."""

    def __init__(self, client, gate: Gate) -> None:
        self.client, self.gate = client, gate
        self.kills: list[tuple[int, int, int, int]] = []  # finished, pieces, unfinished, process

    def __call__(self, function, pieces, **options):
        pieces = list(pieces)
        for finished, result in enumerate(each(function, pieces, **options), start=1):
            if finished == 1:
                # The rest may not be handed out yet; that of a dead worker belongs to nobody.
                limit = time.monotonic() + 60
                while not any((busy := self.client.processing()).values()):
                    assert time.monotonic() < limit, "no worker has anything to do"
                    time.sleep(0.05)
                victim = max(busy, key=lambda worker: len(busy[worker]))
                process = self.client.run(os.getpid, workers=[victim])[victim]
                os.kill(process, signal.SIGKILL)
                unfinished = sum(map(len, busy.values()))
                self.kills.append((finished, len(pieces), unfinished, process))
                self.gate.open()
            yield result

    def check(self) -> None:
        """One worker died after the first result and before the last, and another took over."""
        ((finished, pieces, unfinished, process),) = self.kills
        assert finished == 1 < pieces
        assert unfinished > 0
        limit = time.monotonic() + 60
        # The scheduler may count the dead one for a moment: look for two others, once.
        while len(alive := pids(self.client) - {process}) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
        assert len(alive) == 2


@pytest.fixture
def killer(client, tmp_path, monkeypatch) -> Killer:
    killer = Killer(client, Gate(tmp_path / "open"))
    for module in (many, observed):  # the studies of the lab take theirs from `many`
        monkeypatch.setattr(module, "each", killer)
    return killer


@pytest.fixture(scope="module")
def tasks() -> list[tacit.Task]:
    """Noisy experts on grids of their own."""
    found = []
    for seed in range(1, 5):
        world, (policy, _) = grid(seed), hill_expert(seed)
        walks = tacit.simulate(world.mdp, policy, trajectories=100, steps=60, seed=seed)
        found.append(tacit.Task(world.mdp, world.features, walks))
    return found


def test_fits_are_the_same_on_a_cluster_that_loses_a_worker(tasks, killer):
    estimators = [tacit.Likelihood(), tacit.Convex()] * 2
    # All but the first wait until a worker is dead: the kill comes between the results.
    waiting = [estimators[0], *(Gated(estimator, killer.gate) for estimator in estimators[1:])]
    with joblib.parallel_config(backend="dask"):
        found = tacit.many.recover_each(tasks, estimator=waiting)
    killer.check()
    for task, estimator, there in zip(tasks, estimators, found, strict=True):
        here = estimator.fit(task.mdp, task.features, task.demonstrations, throw=False)
        assert there.status is here.status
        assert_same(there, here)


def assert_same(there: tacit.Recovery, here: tacit.Recovery) -> None:
    # Arrays that have travelled lie elsewhere in memory, so that sums round differently; searches
    # end where the gradient is below 1e-9.
    assert_allclose(there.reward_weights, here.reward_weights, rtol=1e-9)
    assert_allclose(there.cost_weights[0], here.cost_weights[0], rtol=1e-9)
    assert_allclose(
        there.identification.reward_standard_errors,
        here.identification.reward_standard_errors,
        rtol=1e-6,
    )


def test_files_are_reduced_the_same_on_a_cluster_that_loses_a_worker(tasks, tmp_path, killer):
    mdp, walks = tasks[0].mdp, tasks[0].demonstrations
    cuts = [1, 10, 20, 30, 40, 50]  # the first file, of one episode, does not wait
    episodes = np.split(np.arange(walks.episodes), cuts)
    tacit.data.write_partitions((walks.select(part) for part in episodes), tmp_path)
    with joblib.parallel_config(backend="dask"):
        there = tacit.data.PartitionedDemonstrations(tmp_path).reduce(
            partial(gated_tally, killer.gate, mdp)
        )
    killer.check()
    first, *others = (tacit.data.Tally.of(mdp, walks.select(part)) for part in episodes)
    here = sum(others, start=first)
    # The files are merged in their order, whoever read them: the same bits.
    for name in ("counts", "discounted", "cut", "squares", "starts"):
        assert_array_equal(getattr(there, name), getattr(here, name))


def test_files_are_recovered_from_the_same_on_a_cluster(tasks, tmp_path, client):
    mdp, features, walks = tasks[0].mdp, tasks[0].features, tasks[0].demonstrations
    episodes = np.array_split(np.arange(walks.episodes), 5)
    tacit.data.write_partitions((walks.select(part) for part in episodes), tmp_path)
    with joblib.parallel_config(backend="dask"):
        found = tacit.recover(
            mdp,
            features,
            tacit.data.PartitionedDemonstrations(tmp_path),
            estimator=tacit.Likelihood(),
        )
    whole = tacit.recover(mdp, features, walks, estimator=tacit.Likelihood())
    assert_same(found, whole)
    assert np.isfinite(found.identification.reward_standard_errors).all()


def test_trajectories_are_resampled_the_same_on_a_cluster(tasks, client, monkeypatch):
    where = []
    monkeypatch.setattr(lockstep, "each", lambda *a: (where.append(1), each(*a))[1])
    task = tasks[0]
    settings = {"estimator": tacit.Convex(), "bootstrap": 30}
    here = tacit.recover(task.mdp, task.features, task.demonstrations, **settings)
    assert not where
    with joblib.parallel_config(backend="dask"):
        there = tacit.recover(task.mdp, task.features, task.demonstrations, **settings)
    assert where
    assert_allclose(
        there.identification.reward_intervals, here.identification.reward_intervals, rtol=1e-9
    )


def test_the_page_about_clusters_runs_on_one(client, tmp_path, monkeypatch, repository, capsys):
    monkeypatch.setattr(distributed, "Client", lambda address: client)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = (repository / "docs" / "cluster.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```\n", page, re.DOTALL)
    assert len(blocks) == page.count("```python") == 3
    names = {"__name__": "page"}
    for code, said in blocks:
        exec(code, names)  # our own page
        assert capsys.readouterr().out == said


@pytest.mark.study
def test_the_paper_is_reproduced_the_same_on_a_cluster_that_loses_a_worker(
    tmp_path, killer, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # the workers stand elsewhere
    monkeypatch.setattr(studies, "_write_report", lambda settings: settings.out)
    settings = StudySettings(seeds=1, trajectories=2, steps=5, size=3, jobs=1)
    with joblib.parallel_config(backend="dask"):
        studies.reproduce(replace(settings, out=Path("there")))
    killer.check()
    studies.reproduce(replace(settings, out=tmp_path / "here"))
    assert len(units_of(tmp_path / "here")) == 3
    assert units_of(tmp_path / "there") == units_of(tmp_path / "here")


def test_each_task_has_its_recovery_in_order_without_a_cluster(tasks):
    told = []
    found = tacit.many.recover_each(tasks[:2], workers=1, callbacks=[told.append])
    for task, recovery in zip(tasks, found, strict=False):
        alone = tacit.recover(task.mdp, task.features, task.demonstrations)
        assert_array_equal(recovery.reward_weights, alone.reward_weights)
    assert [(event.step, event.numbers["of"]) for event in told] == [(1, 2.0), (2, 2.0)]
    with pytest.raises(tacit.InvalidModel, match=r"one a task \(2\); got 3"):
        tacit.many.recover_each(tasks[:2], estimator=[tacit.Convex()] * 3)
    with pytest.raises(tacit.InvalidModel, match="must be of type Task; got int"):
        tacit.many.recover_each([1])


def test_a_worker_with_another_version_is_refused_in_one_line(client, monkeypatch):
    """Here it is the caller who seems to be another one."""
    monkeypatch.setattr("tacit.engine.__version__", "0.0.9")
    line = "workers must have tacit 0.0.9, as the caller has; the one on .* has .*: install"
    with joblib.parallel_config(backend="dask"), pytest.raises(tacit.InvalidModel, match=line):
        list(each(abs, [(-1,), (-2,)]))
    with pytest.raises(tacit.InvalidModel, match=line):
        list(each(abs, [(-1,), (-2,)], workers=2))
    assert list(each(abs, [(-1,), (-2,)], workers=1)) == [1, 2]
