"""Demonstrations from environments, Minari datasets and imitation's trajectories."""

import gc
import shutil
import warnings
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import refusals
import tacit
from tacit import InvalidDemonstrations, InvalidModel
from tacit.data.sources import Discretiser, action_masks, from_imitation, from_minari, rollouts
from tacit.data.sources.gymnasium import element, measurement_names, number, size
from tacit.data.sources.recordings import Coding, _chooser

LAKE = "FrozenLake-v1"


class Corridor(gymnasium.Env):
    """Cells 10 to 14, walked by pushing left or right or not; the last one ends the episode."""

    observation_space = spaces.Discrete(5, start=10)
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 10
        return self.cell, {}

    def step(self, action):
        left, right = (int(part) for part in action)
        self.cell = min(max(self.cell + right - left, 10), 14)
        return self.cell, 0.0, self.cell == 14, False, {}


refused = partial(refusals.refused, kind=InvalidDemonstrations)


def test_what_the_environment_did_is_what_is_recorded():
    # Action 1 is (0, 1): right. Action 0 is (0, 0): stay.
    seen = rollouts(Corridor(), lambda state: 1, episodes=2)
    assert seen.states.tolist() == [0, 1, 2, 3] * 2
    assert seen.actions.tolist() == [1] * 8
    assert seen.final_states.tolist() == [4, 4]
    assert seen.ended.tolist() == [True, True]
    ends = [-1, -1, -1, -1, 5]
    assert rollouts(Corridor(), lambda state: 1, episodes=1, ends=ends).final_states.tolist() == [5]
    cut = rollouts(Corridor(), lambda state: 0, episodes=1, max_steps=3, ends=ends)
    assert cut.states.tolist() == [0, 0, 0]
    assert (cut.ended.tolist(), cut.final_states.tolist()) == ([False], [0])


def test_a_truncated_episode_has_not_ended():
    environment = gymnasium.wrappers.TimeLimit(Corridor(), 2)
    seen = rollouts(environment, lambda state: 1, episodes=3)
    assert seen.lengths.tolist() == [2, 2, 2]
    assert seen.final_states.tolist() == [2, 2, 2]
    assert not seen.ended.any()


def test_rollouts_follow_the_model_and_the_seed():
    world = tacit.worlds.gymnasium(LAKE, discount=0.95)
    policy = tacit.solve(world.mdp, world.truth).policy  # 0 in the rows of ends
    seen = rollouts(LAKE, policy, episodes=40, seed=3)
    again = rollouts(LAKE, policy, episodes=40, seed=3)
    other = rollouts(LAKE, policy, episodes=40, seed=4)
    assert np.array_equal(seen.states, again.states)
    assert not np.array_equal(seen.states, other.states)
    dense = world.mdp.dense()
    for episode in range(seen.episodes):
        states, actions = seen.trajectory(episode)
        followers = [*states[1:], seen.final_states[episode]]
        assert (dense[states, actions, followers] > 0).all()
    assert (policy[seen.states, seen.actions] > 0).all()
    # 40 episodes on slippery ice end in holes or at the goal, save those cut after 100 steps.
    assert seen.ended.mean() > 0.5
    assert np.array_equal(world.mdp.ends[seen.final_states], seen.ended)
    seen.check(world.mdp)


def test_a_table_is_drawn_from_in_its_proportions():
    table = np.tile([0.1, 0.0, 0.6, 0.3], (5, 1))
    seen = rollouts(Corridor(), table, episodes=1, max_steps=4000, seed=0)
    share = np.bincount(seen.actions, minlength=4) / seen.steps
    assert share[1] == 0
    # Four standard errors of a share of 4000 draws: 4 * 0.5 / 63.
    assert np.abs(share - table[0]).max() < 0.032


def test_masks_of_actions_are_those_of_the_environment():
    assert action_masks(gymnasium.make(LAKE)) is None
    taxi = gymnasium.make("Taxi-v4")
    masks = action_masks(taxi)
    for seed in range(5):
        state, info = taxi.reset(seed=seed)
        assert np.array_equal(masks[state], info["action_mask"])
    odd = SimpleNamespace(
        unwrapped=SimpleNamespace(action_mask=lambda state: [1]),
        observation_space=taxi.observation_space,
        action_space=taxi.action_space,
    )
    refused(lambda: action_masks(odd), "(500, 6)", "(500, 1)", kind=InvalidModel)


def test_a_delivered_passenger_ends_in_the_second_half_of_a_state():
    world = tacit.worlds.gymnasium("Taxi-v4", discount=0.99)
    # Greedy for the values of the model, by hand: no solver is asked.
    dense, values = world.mdp.dense(), np.zeros(504)
    reward, _ = world.truth.tables(world.mdp)
    for _ in range(60):
        worth = np.where(world.mdp.choices, reward + 0.99 * dense @ values, -np.inf)
        values = worth.max(axis=1)
    seen = rollouts("Taxi-v4", lambda state: int(worth[state].argmax()), episodes=8, seed=0)
    assert seen.ended.all()
    assert (seen.final_states >= 500).all()
    seen.check(world.mdp)
    assert (dense[seen.states, seen.actions].max(axis=1) == 1).all()
    bad = rollouts("Taxi-v4", lambda state: 4, episodes=1, max_steps=2)  # picks up nobody
    refused(lambda: bad.check(world.mdp), "must be available", "action 4", "step 0")
    bad.check(tacit.worlds.gymnasium("Taxi-v4", masks=False).mdp)


@pytest.mark.parametrize("drawn", [0.0, np.nextafter(1.0, 0.0)])
def test_an_impossible_action_is_never_drawn(drawn):
    table = np.array([[0.0, 0.5, 0.5 - 1e-10, 0.0]])
    codings = Coding(spaces.Discrete(1), "states"), Coding(spaces.Discrete(4), "actions")
    choose = _chooser(table, codings, SimpleNamespace(random=lambda: drawn))
    assert choose(0, 0)[0] == (1 if drawn == 0 else 2)


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (spaces.Discrete(4, start=-2), 4),
        (spaces.MultiDiscrete([3, 2]), 6),
        (spaces.MultiBinary(3), 8),
        (spaces.MultiBinary((2, 2)), 16),
        (spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 3])]), 12),
        (spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2, start=5)), 6),
    ],
)
def test_every_element_of_a_discrete_space_has_a_number(space, count):
    assert size(space, "observations") == count
    for index in range(count):
        assert space.contains(element(space, index))
        assert int(number(space, element(space, index), "observations")) == index
    assert len({str(element(space, index)) for index in range(count)}) == count


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: rollouts("MountainCarContinuous-v0", lambda seen: seen[:1], episodes=1),
            InvalidDemonstrations,
            ["actions", "discrete", "Box", "discretise first", "action_discretiser"],
        ),
        (
            lambda: rollouts("MountainCar-v0", np.ones((3, 3)) / 3),
            InvalidModel,
            ["function of the observation"],
        ),
        (
            lambda: rollouts("MountainCar-v0", lambda seen: 3, episodes=1),
            InvalidModel,
            ["0 to 2", "3"],
        ),
        (
            lambda: rollouts("MountainCar-v0", lambda seen: 0, ends=[0]),
            InvalidModel,
            ["rows of measurements need none"],
        ),
        (
            lambda: measurement_names(spaces.Dict(a=spaces.Text(3))),
            InvalidDemonstrations,
            ["numbers of a fixed length", "Text"],
        ),
        (
            lambda: rollouts("NoSuchPlace-v0", lambda state: 0),
            InvalidModel,
            ["Gymnasium cannot make", "NoSuchPlace"],
        ),
        (lambda: rollouts(LAKE, np.ones((3, 4))), InvalidModel, ["(16, 4)", "(3, 4)"]),
        (lambda: rollouts(LAKE, np.ones((16, 4))), InvalidModel, ["distributions", "state 0"]),
        (lambda: rollouts(LAKE, lambda state: 4), InvalidModel, ["0 to 3", "4", "state 0"]),
        (lambda: rollouts(LAKE, lambda state: 0.5), InvalidModel, ["0 to 3", "0.5"]),
        (lambda: rollouts(LAKE, lambda state: 0, episodes=0), InvalidModel, ["episodes", "0"]),
        (lambda: rollouts(LAKE, lambda state: 0, max_steps=0), InvalidModel, ["max_steps", "0"]),
        (
            lambda: size(spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]), "observations"),
            InvalidDemonstrations,
            ["observations", "discrete"],
        ),
        (lambda: size(spaces.MultiBinary(40), "actions"), InvalidDemonstrations, ["1099511627776"]),
        (
            lambda: number(spaces.Discrete(3), 3, "observations"),
            InvalidDemonstrations,
            ["observations", "3 elements", "3"],
        ),
        (
            lambda: number(spaces.Discrete(3), 0.5, "actions"),
            InvalidDemonstrations,
            ["actions", "integers", "float64"],
        ),
    ],
)
def test_what_cannot_be_collected_is_said_in_one_line(call, kind, words):
    refused(call, *words, kind=kind)


def collected(minari, data_format: str, name: str = LAKE, key: str = "lake/tiny-v0") -> list[tuple]:
    """Stores a tiny dataset; (observations, actions, terminated) of each of its episodes."""
    told = []
    environment = gymnasium.make(name, max_episode_steps=6)
    collector = minari.DataCollector(environment, data_format=data_format)
    random, count = np.random.default_rng(0), getattr(environment.action_space, "n", 0)
    for episode in range(8):
        observation, _ = collector.reset(seed=episode)
        states, actions, over, terminated = [observation], [], False, False
        while not over:
            action = int(random.integers(count)) if count else random.uniform(-1, 1, 1)
            observation, _, terminated, truncated, _ = collector.step(action)
            states.append(observation)
            actions.append(action)
            over = terminated or truncated
        told.append((states, actions, terminated))
    collector.create_dataset(
        dataset_id=key,
        algorithm_name="random",
        author="nobody",
        author_email="nobody@nowhere",
        code_permalink="none",
        description="a test",
    )
    collector.close()
    return told


@pytest.fixture(scope="module", params=["hdf5", "arrow"])
def dataset(request, tmp_path_factory):
    """A tiny Minari dataset of the frozen lake, and the (observations, actions) it was made of."""
    minari = pytest.importorskip("minari")
    patch = pytest.MonkeyPatch()
    root = tmp_path_factory.mktemp("minari")
    patch.setenv("MINARI_DATASETS_PATH", str(root))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari's own warnings and temporary folders are its
        told = collected(minari, request.param)
        gc.collect()
    made = minari.load_dataset("lake/tiny-v0")
    yield SimpleNamespace(made=made, told=told, folder=root / "lake" / "tiny-v0", root=root)
    patch.undo()


def test_a_minari_dataset_is_read_as_it_was_collected(dataset):
    for source in (dataset.made, dataset.folder, str(dataset.folder / "data"), "lake/tiny-v0"):
        seen = from_minari(source)
        assert seen.episodes == len(dataset.told)
        for episode, (states, actions, terminated) in enumerate(dataset.told):
            assert seen.trajectory(episode)[0].tolist() == states[:-1]
            assert seen.trajectory(episode)[1].tolist() == actions
            assert seen.final_states[episode] == states[-1]
            assert seen.ended[episode] == terminated
    assert 0 < seen.ended.sum() < seen.episodes  # both kinds are there
    ends = from_minari(dataset.folder, ends=np.full(16, 16)).final_states
    assert np.array_equal(ends == 16, seen.ended)
    own = from_minari(dataset.folder, ends=tacit.data.sources.terminal_states(LAKE))
    assert np.array_equal(own.final_states, seen.final_states)


def test_a_minari_folder_that_cannot_be_read(dataset, tmp_path):
    refused(lambda: from_minari(tmp_path), str(tmp_path), "metadata.json", kind=OSError)
    refused(lambda: from_minari("no/such-v0"), "no/such-v0", "Minari", kind=OSError)
    refused(lambda: from_minari(5), "folder", "int")
    for damage in ("metadata.json", "data"):
        copy = tmp_path / f"copy of {damage}"
        shutil.copytree(dataset.folder, copy)
        for path in copy.rglob("*"):
            if path.is_file() and (damage == "data") == (path.suffix != ".json"):
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
        refused(lambda c=copy: from_minari(c), str(copy), "Minari", kind=OSError)


def test_a_continuous_minari_dataset_is_read_in_bins(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        told = collected(minari, "hdf5", "MountainCarContinuous-v0", "car/tiny-v0")
        gc.collect()
    points = np.concatenate([states for states, _, _ in told])
    bins = Discretiser.fit(points, bins=[6, 4], names=["place", "speed"])
    pushes = Discretiser.from_edges([[-1.0, 0.0, 1.0]], names=["push"])
    seen = from_minari("car/tiny-v0", discretiser=bins, action_discretiser=pushes)
    for episode, (states, actions, _) in enumerate(told):
        # Bins of my own reckoning: place runs to the right, speed upwards.
        cuts = [(np.array(states)[:, d], bins.edges[d][1:-1]) for d in (0, 1)]
        column, up = (np.searchsorted(cut, values, side="right") for values, cut in cuts)
        assert seen.trajectory(episode)[0].tolist() == (6 * (3 - up) + column)[:-1].tolist()
        assert seen.trajectory(episode)[1].tolist() == [int(a[0] >= 0) for a in actions]
    assert seen.layout.action_names[1].startswith("push in")


def test_a_continuous_minari_dataset_is_read_as_measurements(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        told = collected(minari, "hdf5", "MountainCar-v0", "car/discrete-v0")
        gc.collect()
    seen = from_minari("car/discrete-v0")
    assert seen.columns == ("x0", "x1")
    assert seen.action_names == ("0", "1", "2")
    for episode, (states, actions, terminated) in enumerate(told):
        rows, taken = seen.trajectory(episode)
        rows = np.append(rows, seen.final_states[episode])
        np.testing.assert_array_equal(seen.observations[rows], np.array(states, float))
        assert taken.tolist() == list(actions)
        assert seen.ended[episode] == terminated


class Rover(gymnasium.Env):
    """A place, a speed and a gear, in a dictionary; it ends beyond 1."""

    observation_space = spaces.Dict(
        place=spaces.Box(-9, 9, (2,)), gear=spaces.Discrete(3), speed=spaces.Box(0, 1, ())
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0.0
        return self.observed(), {}

    def observed(self):
        return {"place": np.array([self.at, -self.at]), "gear": 2, "speed": np.float64(0.5)}

    def step(self, action):
        self.at += 0.5 * action
        return self.observed(), 0.0, self.at > 1, False, {}


def test_observations_that_are_numbers_are_rows_of_measurements():
    taken = iter([1, 0, 1, 1])
    seen = rollouts(Rover(), lambda observed: next(taken), episodes=1)
    assert isinstance(seen, tacit.Measurements)
    names = ("gear", "place_0", "place_1", "speed")  # in the order of the dictionary
    assert sorted(seen.columns) == sorted(names)
    assert seen.actions.tolist() == [1, 0, 1, 1]
    assert seen.ended.tolist() == [True]
    place = np.array([0.0, 0.5, 0.5, 1.0, 1.5])
    wanted = np.stack([place * 0 + 2, place, -place, place * 0 + 0.5], axis=1)
    np.testing.assert_array_equal(seen.measuring(names).observations, wanted)
    assert seen.action_names == ("0", "1")
    stays = rollouts(Rover(), lambda observed: 0, episodes=1, max_steps=2)
    assert (stays.ended.tolist(), stays.final_states.tolist()) == ([False], [2])
    assert stays.action_names == ("0", "1")


def test_continuous_minari_data_must_have_discrete_actions():
    box = SimpleNamespace(
        observation_space=spaces.Box(0, 1),
        action_space=spaces.Box(0, 1),
        iterate_episodes=lambda: iter(()),
    )
    refused(lambda: from_minari(box), "actions", "Box", "discretise first", "action_discretiser")


def test_imitation_trajectories_say_which_form_was_found():
    longer = SimpleNamespace(
        obs=np.array([0, 1, 2]), acts=np.array([1, 0]), infos=None, terminal=True
    )
    even = {"obs": [3, 4], "acts": [0, 0], "infos": [{}, {}], "terminal": False}
    seen = from_imitation([longer, even])
    assert seen.states.tolist() == [0, 1, 3, 4]
    assert seen.final_states.tolist() == [2, -1]
    assert seen.ended.tolist() == [True, False]
    more, even_ones = seen.notes
    assert more.startswith("1 of 2 trajectories holds one observation more than actions: ")
    assert even_ones.startswith("1 of 2 trajectories holds as many observations as actions: ")
    assert from_imitation([longer]).notes[0].startswith("the trajectory holds one observation more")
    unsaid = from_imitation([{"obs": [[0], [1]], "acts": [1]}] * 2)
    assert unsaid.notes[1] == "all trajectories hold no flag 'terminal': taken to be cut off"
    assert not unsaid.ended.any()


@pytest.mark.parametrize(
    ("trajectory", "words"),
    [
        ({"obs": [0.5, 1.0], "acts": [0]}, ["trajectory 0", "obs", "float64", "discretise first"]),
        ({"obs": np.zeros((3, 2), int), "acts": [0, 0]}, ["obs", "(3, 2)", "discretise first"]),
        ({"obs": [0, 1]}, ["trajectory 0", "'acts' is missing", "dict"]),
        ((1, 2), ["trajectory 0", "'obs' is missing", "tuple"]),
        ({"obs": [0, 1, 2, 3], "acts": [0]}, ["trajectory 0", "4 and 1"]),
        ({"obs": [0], "acts": []}, ["trajectory 0", "no step"]),
        ({"obs": [[0], [1, 2]], "acts": [0]}, ["trajectory 0", "obs", "one column"]),
    ],
)
def test_bad_imitation_trajectories(trajectory, words):
    refused(lambda: from_imitation([trajectory]), *words)


def test_no_trajectories():
    refused(lambda: from_imitation([]), "at least one trajectory")


def test_a_state_that_is_started_in_is_split_from_its_end():
    # State 0 is entered with `done` alone, but episodes begin there.
    table = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 1.0, True)]}}
    world = tacit.worlds.gymnasium(table, discount=1.0)
    assert (world.mdp.states, np.flatnonzero(world.mdp.ends).tolist()) == (3, [2])
    assert world.layout.state_name(2) == "the end of state 0"


def test_continuous_observations_and_actions_go_through_discretisers():
    gymnasium = pytest.importorskip("gymnasium")
    from tacit.data.sources import Discretiser

    class Cart(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = np.zeros(2)
            return self.at, {}

        def step(self, action):
            self.at = np.clip(self.at + np.array([0.3 * float(action[0]), 0.1]), -1, 1)
            return self.at, 0.0, False, False, {}

    places = Discretiser.from_edges([np.linspace(-1, 1, 5), [-1, 0, 1]], names=["x", "t"])
    pushes = Discretiser.from_edges([[-1, 0, 1]], names=["push"])
    options = {"discretiser": places, "action_discretiser": pushes}
    seen = tacit.data.sources.rollouts(
        Cart(),
        lambda at: np.array([0.5 if at[0] < 0.5 else -0.5]),
        episodes=1,
        max_steps=6,
        **options,
    )
    x, t, states, actions = 0.0, 0.0, [], []
    for _ in range(7):  # the same by hand
        states.append(int(places([x, t])))
        actions.append(int(x < 0.5))
        x, t = x + (0.15 if x < 0.5 else -0.15), t + 0.1
    assert seen.states.tolist() == states[:6]
    assert seen.actions.tolist() == actions[:6]
    assert seen.final_states.tolist() == states[6:]
    assert seen.layout.action_names[1].startswith("push in")
    table = np.eye(2)[np.ones(8, int)]  # always pushes to the right: the middle of its bin
    with pytest.raises(tacit.InvalidModel, match=r"with_ends\(ends\)"):
        tacit.data.sources.rollouts(Cart(), table, ends=np.full(8, 8), **options)
    pushed = tacit.data.sources.rollouts(Cart(), table, episodes=1, max_steps=3, **options)
    assert pushed.states.tolist() == [int(places([0.15 * n, 0.1 * n])) for n in range(3)]
    with pytest.raises(tacit.InvalidDemonstrations, match="discretise first"):
        tacit.data.sources.rollouts(Cart(), lambda at: np.zeros(1))

    class Episode:
        id, observations = 0, np.array([[0.1, 0.0], [0.6, 0.1], [0.9, 0.2]])
        actions, terminations = np.array([[0.5], [-0.5]]), np.array([False, False])

    class Dataset:
        observation_space, action_space = Cart.observation_space, Cart.action_space

        def iterate_episodes(self):
            return [Episode()]

    read = tacit.data.sources.from_minari(Dataset(), **options)
    assert read.states.tolist() == places(Episode.observations)[:2].tolist()
    assert read.actions.tolist() == [1, 0]
    assert read.final_states.tolist() == [int(places([0.9, 0.2]))]
