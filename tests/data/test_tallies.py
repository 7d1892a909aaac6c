"""Sums made in parts are the sums of the whole, and estimators cannot tell the difference."""

import dataclasses
import gc
import weakref

import joblib
import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tacit
from experts import hill_expert
from strategies import examples, problems
from tacit.data.demonstrations import Demonstrations
from tacit.data.tally import Moves, Scatter, SumSpread, Tally, counts_of, group_sums, tally_of
from tacit.errors import InvalidDemonstrations
from tacit.inference.expectations import moves_of

# Of sums of some hundred numbers, each rounded to about 1e-16 of the largest.
ROUNDING = 1e-12


def ragged(mdp, seed: int) -> Demonstrations:
    """Episodes of many lengths, some absorbed, some joined on their way, some moves impossible."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=rng.integers(2, 12))
    steps, many = int(lengths.sum()), len(lengths)
    return Demonstrations(
        rng.integers(mdp.states, size=steps),
        rng.integers(mdp.actions, size=steps),
        np.concatenate([[0], np.cumsum(lengths)]),
        final_states=np.where(rng.random(many) < 0.5, -1, rng.integers(mdp.states, size=many)),
        partial=rng.random(many) < 0.3,
    )


def with_an_end(mdp) -> tacit.MDP:
    """The same world, but its last state is never left."""
    table = mdp.dense()
    table[-1] = 0.0
    table[-1, :, -1] = 1.0
    return tacit.MDP(table, mdp.initial, mdp.discount)


def features_of(mdp, seed: int) -> tacit.Features:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(mdp.states, mdp.actions, 2))
    table[-1] = table[-1, :1]  # the state that is never left looks the same whatever one does
    return tacit.Features(rng.normal(size=(mdp.states, 3)), [table])


def parts_of(walks: Demonstrations, seed: int) -> list[Demonstrations]:
    """The episodes in their order, cut into parts at random."""
    rng = np.random.default_rng(seed)
    cuts = np.flatnonzero(rng.random(walks.episodes - 1) < 0.5) + 1
    return [walks.select(part) for part in np.split(np.arange(walks.episodes), cuts)]


def added(parts):
    first, *others = parts
    for other in others:
        first = first + other
    return first


# --- the merge is the whole -----------------------------------------------------------------------


@examples(60)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_the_merge_of_parts_is_the_whole(problem, seed):
    mdp = with_an_end(problem.mdp)
    features, walks = features_of(mdp, seed), ragged(mdp, seed)
    parts = parts_of(walks, seed)
    whole = Tally.of(mdp, walks)
    merged = added([Tally.of(mdp, part) for part in parts])
    # Counts are whole numbers in double precision: exact.
    for name in ("counts", "starts", "ends", "longest", "episodes", "steps", "trajectories"):
        assert_array_equal(getattr(merged, name), getattr(whole, name))
    for name in ("discounted", "cut", "squares"):
        assert_allclose(getattr(merged, name), getattr(whole, name), rtol=ROUNDING)
    assert added([Moves.of(mdp, part) for part in parts]) == Moves.of(mdp, walks)
    spreads = [SumSpread.of(mdp, features, part) for part in [walks, *parts]]
    again = added(spreads[1:])
    assert again.number == spreads[0].number
    scale = 100.0  # of sums of up to ten normal numbers, squared
    assert_allclose(again.means, spreads[0].means, atol=scale * ROUNDING)
    assert_allclose(again.squares, spreads[0].squares, atol=scale * ROUNDING)
    scores = np.random.default_rng(seed).normal(size=(4, mdp.states, mdp.actions))
    scattered = [Scatter.of(scores, part) for part in [walks, *parts]]
    again = added(scattered[1:])
    assert again.episodes == walks.episodes
    assert_allclose(again.products, scattered[0].products, atol=scale * walks.steps * ROUNDING)


@examples(30)
@given(problem=problems(max_states=8, max_constraints=0), seed=st.integers(0, 2**20))
def test_spread_and_scatter_are_those_of_sums_taken_one_by_one(problem, seed):
    mdp = with_an_end(problem.mdp)
    features, walks = features_of(mdp, seed), ragged(mdp, seed)
    scores = np.random.default_rng(seed).normal(size=(3, mdp.states, mdp.actions))
    plain, sums = [], []
    for e in range(walks.episodes):
        states, actions = walks.trajectory(e)
        plain.append(scores[:, states, actions].sum(axis=1))
        if walks.partial[e]:
            continue
        rows = np.concatenate([features.reward[states], features.costs[0][states, actions]], axis=1)
        total = mdp.discount ** np.arange(len(states)) @ rows
        last = states[-1] if walks.final_states[e] < 0 else walks.final_states[e]
        if mdp.absorbing[last] and np.ptp(features.costs[0][last], axis=0).max() == 0:
            end = np.concatenate([features.reward[last], features.costs[0][last, 0]])
            total = total + mdp.discount ** len(states) / (1 - mdp.discount) * end
        sums.append(total)
    assert_allclose(
        Scatter.of(scores, walks).products,
        np.einsum("ed,ef->df", plain, plain),
        atol=1e-10,  # a few hundred products of order 10
    )
    found = SumSpread.of(mdp, features, walks)
    assert found.number == len(sums)
    if len(sums) > 1:
        # Tails reach 1 / (1 - discount) = 1000 times a normal number.
        assert_allclose(found.deviations, np.std(sums, axis=0, ddof=1), rtol=1e-9, atol=1e-9)
    else:
        assert np.isnan(found.deviations).all()


@pytest.mark.parametrize("limit", [0, 10**6], ids=["sparse", "dense"])
def test_sums_by_group_are_those_of_the_rows_one_by_one(limit, monkeypatch):
    monkeypatch.setattr("tacit.data.tally.DENSE_GROUPS", limit)
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 4, 5, 12])
    places, weights = rng.integers(0, 6, size=12), rng.random(12)
    for given_weights in (weights, None):
        expected = np.zeros((4, 6))
        for row in range(12):
            group = int(np.searchsorted(offsets, row, side="right")) - 1
            expected[group, places[row]] += 1.0 if given_weights is None else weights[row]
        found = group_sums(given_weights, places, offsets, 6)
        assert isinstance(found, np.ndarray) is (limit > 0)
        assert_allclose(found @ np.eye(6), expected, rtol=1e-15)


def test_positions_and_pairs_are_counted_from_the_start_of_each_episode(walks):
    step = np.concatenate([np.arange(n) for n in walks.lengths])
    assert_array_equal(walks.step, step)
    assert_array_equal(walks.pairs(4), 4 * walks.states.astype(int) + walks.actions)
    assert_array_equal(walks.select([0]).step, np.arange(walks.lengths[0]))


def test_the_first_impossible_move_of_the_whole_is_named():
    mdp = tacit.MDP([[[0, 1.0]], [[1.0, 0]]], [1, 0], 0.5)  # to and fro
    good, bad = ([0, 1], [0, 0]), ([0, 0, 1], [0, 0, 0])
    late = ([1, 0], [0, 0])
    walks = Demonstrations.from_trajectories([good, good, bad, late, bad, late])
    walks = dataclasses.replace(walks, partial=np.arange(6) == 5)  # the last was joined later
    found = added([Moves.of(mdp, walks.select([e])) for e in range(6)])
    assert found == Moves(episodes=6, impossible=2, move=(2, 0, 0, 0, 0), misplaced=1, start=(3, 1))


def test_sums_are_kept_for_one_world_and_die_with_the_demonstrations():
    one, other = tacit.worlds.hill_grid(seed=0).mdp, tacit.worlds.hill_grid(seed=1).mdp
    walks = tacit.simulate(one, np.full((25, 4), 0.25), trajectories=3, steps=5, seed=0)
    assert tally_of(one, walks) is tally_of(one, walks)
    assert moves_of(one, walks) is moves_of(one, walks)
    assert tally_of(other, walks) is not tally_of(one, walks)
    assert_array_equal(counts_of(one, walks), walks.counts(one))
    with pytest.raises(ValueError, match="read-only"):  # one array for all who ask
        counts_of(one, walks)[0] = 1.0
    gone = weakref.ref(walks)
    del walks
    gc.collect()
    assert gone() is None


def test_tallies_of_other_worlds_are_refused():
    mdp = tacit.MDP([[[0, 1.0]], [[1.0, 0]]], [1, 0], 0.5)
    other = tacit.MDP([[[0, 1.0]], [[1.0, 0]]], [1, 0], 0.6)
    walks = Demonstrations([0, 1], [0, 0], [0, 2])
    tally = Tally.of(mdp, walks)
    with pytest.raises(InvalidDemonstrations, match=r"same world; got .*0\.5.*0\.6"):
        tally + Tally.of(other, walks)
    with pytest.raises(InvalidDemonstrations, match=r"it has .*0\.5.*, the world .*0\.6"):
        tacit.recover(other, tacit.Features([[0.0], [1.0]]), tally)


# --- recoveries -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walks() -> Demonstrations:
    """A noisy expert on the grid: 120 trajectories of 60 steps, ten of them joined on their way."""
    world = tacit.worlds.hill_grid(seed=1, tightness=0.5).in_gauge
    policy, _ = hill_expert()
    seen = tacit.simulate(world.mdp, policy, trajectories=120, steps=60, seed=3)
    return Demonstrations(
        seen.states,
        seen.actions,
        seen.offsets,
        ended=seen.ended,
        final_states=seen.final_states,
        partial=np.arange(120) % 12 == 5,
    )


@pytest.fixture(scope="module")
def task(walks):
    world = tacit.worlds.hill_grid(seed=1, tightness=0.5).in_gauge
    return world.mdp, world.features


@pytest.fixture(scope="module")
def folder(walks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    parts = (walks.select(part) for part in np.array_split(np.arange(120), 4))
    assert tacit.data.write_partitions(parts, folder) == 4
    return folder


ESTIMATORS = {
    "likelihood": tacit.Likelihood(),
    "convex": tacit.Convex(),
    "explanation": tacit.Explanation(),
    "alternating": tacit.Alternating(starts=1, max_steps=3),
    "picked": None,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_files_read_in_parts_give_the_recovery_of_the_whole(name, task, walks, folder):
    parts = tacit.data.PartitionedDemonstrations(folder, workers=1)
    one = tacit.recover(*task, walks, estimator=ESTIMATORS[name], throw=False)
    two = tacit.recover(*task, parts, estimator=ESTIMATORS[name], throw=False)
    assert two.identification.findings == one.identification.findings
    assert two.status is one.status
    # Sums differ by rounding, searches end where gradients are below 1e-9.
    assert_allclose(two.reward_weights, one.reward_weights, rtol=1e-9)
    assert_allclose(two.cost_weights[0], one.cost_weights[0], rtol=1e-9)
    for field in ("reward_standard_errors", "cost_standard_errors", "reward_intervals"):
        mine, theirs = getattr(two.identification, field), getattr(one.identification, field)
        assert_allclose(np.ravel(mine), np.ravel(theirs), rtol=1e-6)
    assert two.certificate.sampling_noise == pytest.approx(one.certificate.sampling_noise)
    assert two.certificate.truncation == pytest.approx(one.certificate.truncation)
    if name == "likelihood":
        assert two.parameters.errors == one.parameters.errors == "clustered"
        assert np.isfinite(two.identification.reward_standard_errors).all()


def test_two_processes_find_the_same_bits_as_one(task, folder):
    found = [
        tacit.data.PartitionedDemonstrations(folder, workers=workers).tally(task[0])
        for workers in (1, 2)
    ]
    for name in ("counts", "discounted", "cut", "squares"):
        assert_array_equal(getattr(found[0], name), getattr(found[1], name))


def test_sums_alone_are_enough_for_the_weights_and_say_what_is_lost(task, walks):
    one = tacit.recover(*task, walks, estimator=tacit.Likelihood())
    two = tacit.recover(*task, tally_of(task[0], walks), estimator=tacit.Likelihood())
    assert_array_equal(two.reward_weights, one.reward_weights)
    assert np.isnan(two.certificate.sampling_noise)
    assert np.isfinite(one.certificate.sampling_noise)
    assert (one.parameters.errors, two.parameters.errors) == ("clustered", "fisher")


def test_tasks_are_recovered_from_sums_alone(task, walks):
    one = tacit.recover([tacit.Task(*task, walks)])
    two = tacit.recover([tacit.Task(*task, Tally.of(task[0], walks))])
    assert_allclose(two.cost_weights[0], one.cost_weights[0], rtol=1e-9)
    assert np.isfinite(one.recoveries[0].certificate.sampling_noise)
    assert np.isnan(two.recoveries[0].certificate.sampling_noise)


def test_those_who_look_at_single_episodes_ask_for_them(task, walks):
    with pytest.raises(InvalidDemonstrations, match="in memory here; got Tally"):
        tacit.recover(
            *task, Tally.of(task[0], walks), estimator=tacit.Likelihood(), bootstrap=10, throw=False
        )
    with pytest.raises(InvalidDemonstrations, match="must be Demonstrations; got list"):
        tacit.recover(*task, [1, 2])


# --- the folder -----------------------------------------------------------------------------------


def write(path, episode, step, state=None):
    rows = len(episode)
    columns = {"episode": episode, "step": step, "state": state or [0] * rows, "action": [0] * rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    polars.DataFrame(columns).write_parquet(path)


def two_states() -> tacit.MDP:
    return tacit.MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [1, 0], 0.5)


def opened(folder) -> tacit.data.PartitionedDemonstrations:
    return tacit.data.PartitionedDemonstrations(folder, workers=1)


def test_an_episode_in_two_files_is_an_error(tmp_path):
    write(tmp_path / "a.parquet", [0, 0, 1, 1], [0, 1, 0, 1])
    write(tmp_path / "b.parquet", [2, 1, 1], [0, 2, 3])
    with pytest.raises(InvalidDemonstrations, match=r"episode 1 is in .*a\.parquet and in .*b\.p"):
        opened(tmp_path).tally(two_states())
    with pytest.raises(InvalidDemonstrations, match="episode 1 is in"):
        opened(tmp_path).episodes  # noqa: B018


def test_named_episodes_in_folders_inside_are_read(tmp_path):
    write(tmp_path / "site=a" / "x.parquet", ["m1", "m1"], [0, 1])
    write(tmp_path / "site=b" / "y.pq", ["m2"], [0], [1])
    write(tmp_path / "_temporary" / "z.parquet", ["m1"], [2])
    (tmp_path / ".hidden.parquet").write_bytes(b"")
    found = opened(tmp_path)
    assert (found.episodes, found.steps, len(found.files)) == (2, 3, 2)
    assert_array_equal(found.counts(two_states()), [[2], [1]])


def test_files_that_count_steps_differently_are_an_error(tmp_path):
    write(tmp_path / "a.parquet", [0, 0], [0, 1])
    write(tmp_path / "b.parquet", [1, 1], [1, 2])
    with pytest.raises(InvalidDemonstrations, match=r"of .*b\.parquet begins at step 1, not so in"):
        opened(tmp_path).tally(two_states())
    (tmp_path / "a.parquet").unlink()
    found = opened(tmp_path)
    assert found.tally(two_states()).trajectories == 1
    assert "count from 1" in found.notes[0]


def test_a_state_that_does_not_exist_is_named_with_its_file_and_row(tmp_path):
    write(tmp_path / "a.parquet", [0, 0], [0, 1])
    write(tmp_path / "b.parquet", [1, 1], [0, 1], [0, 7])
    with pytest.raises(InvalidDemonstrations, match=r"b\.parquet, row 2: state .*got 7"):
        opened(tmp_path).check(two_states())


def test_folders_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(NotADirectoryError, match="must be a folder of Parquet files"):
        opened(tmp_path / "missing")
    with pytest.raises(InvalidDemonstrations, match=r"must hold \.parquet files; got none"):
        opened(tmp_path)
    write(tmp_path / "a.parquet", [0, 0], [0, 1])
    found = opened(tmp_path)
    with pytest.raises(FileExistsError, match="must hold no Parquet files yet"):
        tacit.data.write_partitions([], tmp_path)
    write(tmp_path / "a.parquet", [0, 0, 0], [0, 1, 2])
    with pytest.raises(OSError, match=r"a\.parquet has changed since the folder was opened"):
        found.tally(two_states())


def test_partitions_keep_everything_that_demonstrations_hold(walks, folder):
    # The oracle reads all files as one table.
    files = sorted(folder.glob("*.parquet"))
    frame = polars.concat([polars.read_parquet(path) for path in files], how="diagonal")
    assert frame["episode"].n_unique() == 120
    assert frame.filter(polars.col("partial"))["episode"].n_unique() == 10
    assert_array_equal(frame["state"].to_numpy(), walks.states)


def test_another_world_or_other_features_are_read_anew(task, walks, folder):
    mdp, features = task
    seen = []
    parts = tacit.data.PartitionedDemonstrations(
        folder, workers=1, progress=lambda done, files: seen.append((done, files))
    )
    patient = tacit.MDP(mdp.transitions, mdp.initial, 0.99)
    doubled = tacit.Features(2 * features.reward, features.costs)
    for world in (mdp, patient, mdp):
        assert parts.tally(world).discount == world.discount
        assert_allclose(parts.tally(world).cut, Tally.of(world, walks).cut, rtol=ROUNDING)
    assert seen == 3 * [(1, 4), (2, 4), (3, 4), (4, 4)]  # the second answer is kept
    for maps in (features, doubled):
        found = parts.spread(mdp, maps).deviations
        assert_allclose(found, SumSpread.of(mdp, maps, walks).deviations, rtol=1e-9)


def test_joblib_says_how_many_workers(task, folder, monkeypatch):
    seen = []
    plain = joblib.Parallel.__init__

    def noted(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        seen.append(self.n_jobs)

    monkeypatch.setattr(joblib.Parallel, "__init__", noted)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        tacit.data.PartitionedDemonstrations(folder).tally(task[0])
    assert seen == [3]
    with pytest.raises(tacit.InvalidModel, match="workers must be at least 1; got 0"):
        tacit.data.PartitionedDemonstrations(folder, workers=0).tally(task[0])


# --- ends -----------------------------------------------------------------------------------------


def restricted(mdp, seed: int, discount: float) -> tacit.MDP:
    """The same world, but its last state is an end, and some other actions are not available."""
    rng = np.random.default_rng(seed)
    table = 0.9 * mdp.dense()
    table[..., -1] += 0.1  # every state reaches the end
    there = rng.random((mdp.states, mdp.actions)) < 0.7
    there[np.arange(mdp.states), rng.integers(mdp.actions, size=mdp.states)] = True
    there[-1] = False
    start = np.append(np.ones(mdp.states - 1), 0.0) / (mdp.states - 1)
    return tacit.MDP(table, start, discount, available=there)


def walked(mdp, seed: int, episodes: int = 12, steps: int = 9) -> Demonstrations:
    """Episodes walked by hand, by available actions alone; some reach the end, some are cut off."""
    rng = np.random.default_rng(seed)
    dense, pairs = mdp.dense(), []
    for _ in range(episodes):
        states, actions = [rng.choice(mdp.states, p=mdp.initial)], []
        while len(actions) < steps and not mdp.ends[states[-1]]:
            actions.append(rng.choice(np.flatnonzero(mdp.available[states[-1]])))
            states.append(rng.choice(mdp.states, p=dense[states[-1], actions[-1]]))
        pairs.append((states, actions))
    last = np.array([states[-1] for states, _ in pairs])
    return Demonstrations.from_trajectories(pairs, ended=mdp.ends[last])


@examples(40)
@given(
    problem=problems(max_states=8, max_constraints=0),
    seed=st.integers(0, 2**20),
    discount=st.sampled_from([0.6, 0.95, 1.0]),
)
def test_an_end_is_collected_once_on_arrival(problem, seed, discount):
    from tacit.inference.expectations import expectations

    if problem.mdp.states < 2:
        return
    mdp = restricted(problem.mdp, seed, discount)
    features, walks = features_of(mdp, seed), walked(mdp, seed)
    sums, arrived = [], np.zeros(mdp.states)
    for e in range(walks.episodes):
        states, actions = walks.trajectory(e)
        rows = np.concatenate([features.reward[states], features.costs[0][states, actions]], axis=1)
        total = discount ** np.arange(len(states)) @ rows
        if walks.ended[e]:
            end = np.concatenate([features.reward[-1], features.costs[0][-1, 0]])
            total = total + discount ** len(states) * end
            arrived[-1] += discount ** len(states)
        sums.append(total)
    seen = expectations(mdp, features, walks)
    assert_allclose(np.concatenate(seen.means), np.mean(sums, axis=0), atol=1e-9)
    assert_allclose(np.concatenate(seen.deviations), np.std(sums, axis=0, ddof=1), atol=1e-9)
    # The arrivals are divided equally over the row of the end.
    assert_allclose(seen.visitation[-1], arrived[-1] / walks.episodes / mdp.actions, atol=1e-12)
    cut = int((~walks.ended).sum())
    missing = np.concatenate(seen.truncation)
    if discount == 1.0:
        assert (np.isinf(missing) if cut else missing == 0).all()
    else:
        bound = (discount ** walks.lengths[~walks.ended]).sum() / (1 - discount) / walks.episodes
        sizes = [np.abs(features.reward).max(axis=0), np.abs(features.costs[0]).max(axis=(0, 1))]
        assert_allclose(missing, bound * np.concatenate(sizes), atol=1e-9)
    parts = parts_of(walks, seed)
    merged, whole = added([Tally.of(mdp, part) for part in parts]), Tally.of(mdp, walks)
    for name in ("discounted", "cut", "squares"):
        assert_allclose(getattr(merged, name), getattr(whole, name), rtol=ROUNDING)


def test_unavailable_steps_are_refused_by_episode_and_step(tmp_path):
    table = np.eye(3)[[[1, 2], [0, 2], [2, 2]]]
    mdp = tacit.MDP(table, [1, 0, 0], 0.9, available=[[1, 1], [0, 1], [0, 0]])
    good = Demonstrations.from_trajectories([([0, 1, 2], [0, 1]), ([0, 2], [1])])
    good.check(mdp)
    bad = Demonstrations.from_trajectories([([0, 2], [1]), ([0, 1, 0], [0, 0])])
    over = Demonstrations.from_trajectories([([0, 2, 2], [1, 0])])
    for walks, words in (
        (bad, "must be available in its state; got action 0 in state 1 at episode 1, step 1"),
        (over, "which can only come last; got action 0 in state 2 at episode 0, step 1"),
    ):
        with pytest.raises(InvalidDemonstrations, match=words):
            walks.check(mdp)
        with pytest.raises(InvalidDemonstrations, match=words):
            tacit.recover(mdp, tacit.Features(np.eye(3)), walks)
        open_world = tacit.MDP(table, [1, 0, 0], 0.9)
        with pytest.raises(InvalidDemonstrations, match="in the tally"):
            Tally.of(open_world, walks).check(mdp)
    folder = tmp_path / "parts"
    tacit.data.write_partitions([good, bad], folder)
    parts = tacit.data.PartitionedDemonstrations(folder, workers=1)
    with pytest.raises(InvalidDemonstrations, match=r"part-00001.parquet, row 3: every action"):
        parts.tally(mdp)


def test_bounds_know_that_an_episode_could_have_been_longer():
    from tacit.inference.expectations import expectations

    # A coin is tossed until it shows heads; every toss counts 1, the end nothing.
    table = np.array([[[0.5, 0.5]], [[0.0, 0.0]]])
    features = tacit.Features(np.array([[1.0], [0.0]]))
    held, walks = 0, None
    for seed in range(40):
        mdp = tacit.MDP(table, [1, 0], 0.9, available=[[1], [0]])
        lengths = np.random.default_rng(seed).geometric(0.5, size=10)
        walks = Demonstrations.from_trajectories(
            [([0] * n + [1], [0] * n) for n in lengths], ended=np.ones(10, bool)
        )
        seen = expectations(mdp, features, walks)
        held += abs(seen.reward[0] - 1 / (1 - 0.45)) <= seen.hoeffding()[0][0]
        # A tossing may go on for ever: its range is 1 / (1 - discount), whatever was seen.
        assert seen.hoeffding()[0][0] == pytest.approx(10 * np.sqrt(np.log(2 / 0.05) / 20))
    assert held == 40
    endless = expectations(tacit.MDP(table, [1, 0], 1.0, available=[[1], [0]]), features, walks)
    assert np.isinf(endless.hoeffding()[0]).all()
    assert np.isinf(endless.bernstein()[0]).all()
    assert endless.truncation[0].tolist() == [0.0]
    assert endless.horizons.longest == walks.lengths.max() + 1
