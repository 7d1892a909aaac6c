"""Out to the tools people use, and back: what they see is what tacit computed."""

import warnings

import numpy as np
import polars
import pytest

import tacit
from tacit import MDP, InvalidModel, Objective, export
from tacit.data.sources import Discretiser
from tacit.model.layout import Layout

gymnasium = pytest.importorskip("gymnasium")

WORLD = tacit.worlds.random(2, states=6, actions=3, constraints=2, discount=0.8, tightness=0.5)
SOLVED = tacit.solve(WORLD.mdp, WORLD.truth)


def lived(env, policy, episodes: int, steps: int, discount: float, state_of=int):
    """[episodes, 1 + K] discounted reward and costs of a policy, as an agent outside collects."""
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    sums = []
    for _ in range(episodes):
        observation, _ = env.reset()
        total = 0.0
        for t in range(steps):
            action = rng.choice(policy.shape[1], p=policy[state_of(observation)])
            observation, reward, terminated, truncated, info = env.step(action)
            assert info["cost"] == pytest.approx(info["costs"].sum(), rel=1e-12)
            total = total + discount**t * np.array([reward, *info["costs"]])
            if terminated or truncated:
                break
        sums.append(total)
    return np.array(sums)


def agree(sums: np.ndarray, expected) -> None:
    """Means within four standard errors of what is expected."""
    error = sums.std(axis=0, ddof=1) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(axis=0) - expected) <= 4 * error).all()
    assert (error < 0.2 * np.abs(expected).max()).all()  # or the test could not fail


def test_the_environment_passes_the_checker_of_gymnasium():
    from gymnasium.utils.env_checker import check_env

    env = export.environment(WORLD.mdp, WORLD.truth, max_steps=20)
    with warnings.catch_warnings():
        # Made without gymnasium.make, so the checker cannot make it again to try other modes.
        warnings.filterwarnings("ignore", message=".*(spec|registered).*")
        check_env(env)
    assert env.observation_space.n == 6
    assert env.action_space.n == 3
    assert env.unwrapped.discount == 0.8
    assert np.array_equal(env.unwrapped.budgets, WORLD.truth.budgets)


def test_an_agent_collects_what_tacit_computed():
    env = export.environment(WORLD.mdp, WORLD.truth)
    # 40 steps leave out a part 0.8^40 = 1e-4 of everything.
    sums = lived(env, SOLVED.policy, 500, 40, 0.8)
    agree(sums, [SOLVED.value, *SOLVED.spent])


def test_the_same_seed_gives_the_same_episode():
    runs = []
    for seed in (3, 3, 4):
        env = export.environment(WORLD.mdp, WORLD.truth, max_steps=30)
        trace = [env.reset(seed=seed)[0]]
        trace += [env.step(t % 3)[0] for t in range(30)]
        runs.append(trace)
    assert runs[0] == runs[1] != runs[2]


# Work pays 1 and costs 2; resting leads home, where nothing is paid; the mine pays for ever.
NAMES = Layout(state_names=("work", "home", "mine"), action_names=("stay", "rest", "dig"))
LIFE = MDP(np.eye(3)[[[0, 1, 2], [1, 1, 1], [2, 2, 2]]], [1, 0, 0], 0.9)
PAY = Objective([1, 0, 5], [[2, 0, 0]], [9])


def test_episodes_end_where_nothing_is_paid_any_more():
    env = export.environment(LIFE, PAY, layout=NAMES, max_steps=3)
    state, info = env.reset(seed=0)
    assert (state, info["state"], info["action_mask"].tolist()) == (0, "work", [1, 1, 1])
    state, reward, terminated, truncated, info = env.step(0)
    assert (state, reward, terminated, truncated) == (0, 1.0, False, False)
    assert (info["cost"], info["state"], info["action"]) == (2.0, "work", "stay")
    assert env.step(1)[:4] == (1, 1.0, True, False)
    assert env.render() == "home"
    env.reset()
    assert env.step(2)[2:4] == (False, False)  # nothing leaves the mine, but it goes on paying
    assert env.step(0)[:4] == (2, 5.0, False, False)
    assert env.step(0)[3]
    with pytest.raises(InvalidModel, match=r"an action must be in 0\.\.2; got 7"):
        env.step(7)


LAKE = tacit.worlds.gymnasium(
    "FrozenLake-v1",
    discount=0.9,
    costs=[np.isin(np.arange(16), [1, 2, 3, 4, 8])],
    budgets=[2.0],
)


def visits_of(mdp, policy: np.ndarray) -> np.ndarray:
    """[S, A] discounted visits of a policy; those of ends are their arrivals, spread over a row."""
    chain = np.einsum("sa,sat->ts", np.where(mdp.available, policy, 0.0), mdp.dense())
    reached = np.linalg.solve(np.eye(mdp.states) - mdp.discount * chain, mdp.initial)
    return reached[:, None] * np.where(mdp.ends[:, None], 1 / mdp.actions, policy)


def test_the_wrapper_pays_a_foreign_environment_by_the_objective():
    # What an agent is paid in Gymnasium's own lake is what tacit's model of it promises.
    policy = np.random.default_rng(5).dirichlet(np.ones(4), size=16)
    table = visits_of(LAKE.mdp, policy)
    rng = np.random.default_rng(0)
    prize = np.where(LAKE.mdp.ends[:, None], 1 + rng.random((16, 1)), rng.random((16, 4)))
    holes = [np.isin(np.arange(16), [1, 2, 5, 12])]
    objective = Objective(prize, holes, [2.0])
    env = export.wrapper(gymnasium.make("FrozenLake-v1"), objective, discount=0.9)
    _, costs = objective.tables(LAKE.mdp)
    sums = lived(env, policy, 600, 100, 0.9)
    agree(sums, [(table * prize).sum(), *(table * costs).sum(axis=(1, 2))])


def test_a_wrapped_goal_is_paid_whenever_it_is_reached():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    goal = Objective(np.arange(16) == 15, [np.isin(np.arange(16), [5, 7, 11, 12])], [1.0])
    env = export.wrapper(lake, goal)
    way, total, drowned = [2, 2, 1, 1, 1, 2], 0.0, 0.0  # right, right, down, down, down, right
    for episode in range(17):
        env.reset(seed=episode)
        for action in way:
            observation, paid, terminated, _, info = env.step(action)
            total += paid
        assert (observation, terminated, info["recovered_reward"]) == (15, True, 1.0)
        env.reset()
        for action in (2, 1):
            _, paid, _, _, info = env.step(action)
            total, drowned = total + paid, drowned + info["cost"]
    assert (total, drowned) == (17.0, 17.0)  # once each, on arrival


def test_a_split_end_pays_as_the_model_says():
    taxi, world = gymnasium.make("Taxi-v4"), tacit.worlds.gymnasium("Taxi-v4")
    state, _ = taxi.reset(seed=3)
    pay = np.zeros(504)
    pay[500:] = 7.0
    env = export.wrapper(taxi, Objective(pay))
    assert env._ends[env._ends >= 500].tolist() == [500, 501, 502, 503]
    assert env._ends[state] == state
    with pytest.raises(
        InvalidModel, match=r"ends must be states of the objective, 0\.\.503; got 600"
    ):
        export.wrapper(taxi, Objective(pay), ends=np.full(500, 600))
    by_action = Objective(np.arange(504 * 6.0).reshape(504, 6))
    env = export.wrapper(gymnasium.make("FrozenLake-v1", desc=["SG"], is_slippery=False), by_action)
    env.reset(seed=0)
    with pytest.raises(InvalidModel, match="pay the same for all actions where an episode ends"):
        env.step(2)
    assert world.mdp.states == 504


# Two ways out, one of them dear; left of the first room there is nothing.
HOUSE = np.zeros((4, 3, 4))
HOUSE[0, 1, [0, 1]] = 0.4, 0.6
HOUSE[0, 2, [1, 2]] = 0.5, 0.5
HOUSE[1, 0, 0] = HOUSE[1, 2, 3] = 1.0
OPEN = HOUSE.sum(axis=2) > 0
PRIZES = np.array([[0, -1.0, -2], [-1, 0, -0.5], [4, 4, 4], [9, 9, 9]])
FINES = np.array([[0, 1.0, 0], [2, 0, 1], [3, 3, 3], [0, 0, 0]])


@pytest.mark.parametrize("discount", [0.8, 1.0])
def test_an_environment_with_ends_pays_them_once_on_arrival(discount):
    mdp = MDP(HOUSE, [1, 0, 0, 0], discount, available=OPEN)
    assert mdp.ends.tolist() == [False, False, True, True]
    objective = Objective(PRIZES, [FINES], [2.0])
    policy = OPEN / np.maximum(OPEN.sum(axis=1, keepdims=True), 1)
    table = visits_of(mdp, policy)
    env = export.environment(mdp, objective)
    sums = lived(env, policy, 800, 200, discount)
    agree(sums, [(table * PRIZES).sum(), (table * FINES).sum()])


def test_masks_are_told_and_what_they_rule_out_is_refused():
    from gymnasium.utils.env_checker import check_env

    mdp = MDP(HOUSE, [1, 0, 0, 0], 0.8, available=OPEN)
    env = export.environment(mdp, Objective(PRIZES, [FINES], [2.0]), max_steps=20)
    _, info = env.reset(seed=0)
    assert (info["action_mask"].tolist(), info["action_mask"].dtype) == ([0, 1, 1], np.int8)
    state, reward, terminated, _, info = env.step(0)
    # Nothing happens, at the worst price of all: it is never worth the while.
    assert (state, reward, terminated, info["refused"]) == (0, -2.0, False, True)
    assert info["cost"] == 3.0
    while not terminated:
        state, reward, terminated, _, info = env.step(int(np.argmax(info["action_mask"])))
        assert "refused" not in info
        if state == 1 and not terminated:
            state, reward, terminated, _, info = env.step(2)
    assert (state, reward, info["action_mask"].tolist()) == (3, -0.5 + 0.8 * 9, [0, 0, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(spec|registered).*")
        for seed in range(5):  # the checker draws actions without a look at the mask
            env.action_space.seed(seed)
            check_env(env)
    # One that starts at an end is over after one step, and paid once.
    env = export.environment(MDP(HOUSE, [0, 0, 0, 1], 0.8, available=OPEN), Objective(PRIZES))
    env.reset(seed=0)
    assert env.step(1)[:3] == (3, 9.0, True)


def test_the_reward_is_replaced_or_told():
    lake = gymnasium.make("FrozenLake-v1", desc=["SG"], is_slippery=False)
    pay = Objective([[1, 2, 3, 4], [0, 0, 0, 0]], [[[0, 0, 7, 0], [0, 0, 0, 0]]], [1])
    for replace in (True, False):
        env = export.wrapper(lake, pay, replace_reward=replace)
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step(2)
        assert terminated
        assert reward == (3.0 if replace else 1.0)
        assert info["recovered_reward"] == 3.0
        assert info["environment_reward"] == 1.0
        assert info["cost"] == 7.0


def test_a_discretiser_says_the_state_of_an_observation():
    cart = gymnasium.make("CartPole-v1")
    cells = Discretiser.from_edges(
        [[-5, 0, 5], [-50, 50], [-0.5, 0, 0.5], [-50, 50]], names=["x", "v", "tilt", "w"], clip=True
    )
    pay = Objective(np.arange(4.0), [np.arange(4.0)], [1.0])
    with pytest.raises(InvalidModel, match=r"state_of must say which number a value of Box"):
        export.wrapper(cart, pay)
    env = export.wrapper(cart, pay, state_of=cells)
    before, _ = env.reset(seed=0)
    _, reward, _, _, info = env.step(1)
    assert reward == info["cost"] == cells(before) == (2 * (before[0] >= 0) + (before[2] >= 0))


def test_a_wrapper_passes_the_checker_of_gymnasium():
    from gymnasium.utils.env_checker import check_env

    goal = Objective(np.arange(16) == 15, [np.arange(16) == 5], [1.0])
    env = export.wrapper(gymnasium.make("FrozenLake-v1"), goal)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(wrapped|wrapper|spec|registered).*")
        check_env(env, skip_render_check=True)
    first, _ = env.reset(seed=3, options={"of": "somebody"})
    assert [env.reset(seed=3)[0], env.step(1)[0]] == [first, env.unwrapped.s]


class Hall(gymnasium.Env):
    """A hall 4 metres long, walked one metre a step; it ends an episode at 3.5 metres and more."""

    observation_space = gymnasium.spaces.Box(0.0, 4.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([1.6])
        return self.at, {}

    def step(self, action):
        self.at = np.clip(self.at + (1.0 if action else -1.0), 0.0, 4.0)
        return self.at, 0.0, bool(self.at[0] >= 3.5), False, {}


def test_a_discretiser_carries_its_ends_to_recordings_and_wrappers(tmp_path):
    halves = Discretiser.from_edges([[0, 2, 4]], names=["x"])  # the far half is left and ends
    halves = halves.with_ends(halves.states)
    halves.save(tmp_path / "halves.npz")
    halves = Discretiser.load(tmp_path / "halves.npz")
    assert halves.ends.tolist() == [2, 2]
    seen = tacit.data.sources.rollouts(Hall(), lambda at: 1, episodes=1, discretiser=halves)
    assert (seen.states.tolist(), seen.final_states.tolist()) == ([0, 1], [2])
    goal = Objective([0.0, 0.0, 5.0])
    env = export.wrapper(Hall(), goal, state_of=halves)
    env.reset(seed=0)
    assert [env.step(1)[1:3] for _ in range(2)] == [(0.0, False), (5.0, True)]
    # Where nobody says what the state more is, nothing is paid in silence.
    plain = Discretiser.from_edges([[0, 2, 4]])
    for state_of in (plain, Discretiser.from_edges([[0, 4]])):
        with pytest.raises(InvalidModel, match=f"knows 3 states and {state_of.states} are obs"):
            export.wrapper(Hall(), goal, state_of=state_of)
    with pytest.raises(InvalidModel, match="a discretiser carries its ends"):
        export.wrapper(Hall(), goal, state_of=halves, ends=[2, 2])
    with pytest.raises(InvalidModel, match="for each of 2"):
        halves.with_ends([2, 2, 2])
    # A function says no more than a number; the ends of a recovery say that this one is none.
    house = MDP(
        np.eye(3)[[[1, 0], [2, 0], [0, 0]]], [1, 0, 0], 0.9, available=[[1, 1]] * 2 + [[0, 0]]
    )
    walks = [([0, 1, 2], [0, 0]), ([0, 0, 1, 2], [1, 0, 0])] * 9
    log = tacit.Demonstrations.from_trajectories(walks, ended=[True] * 18)
    found = tacit.recover(house, tacit.Features(np.eye(3)[:, [2]], []), log, throw=False)
    env = export.wrapper(Hall(), found, state_of=lambda at: int(plain(at)[0]))
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(InvalidModel, match="over in state 1, which is no end"):
        env.step(1)


def test_a_wrapper_of_the_wrong_size_is_refused():
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(InvalidModel, match=r"knows 3 numbers, from 0; got Discrete\(16\)"):
        export.wrapper(lake, PAY)
    env = export.wrapper(lake, PAY, state_of=lambda observation: 3)
    with pytest.raises(InvalidModel, match=r"state_of must give a number in 0\.\.2; got 3"):
        env.reset(seed=0)
    with pytest.raises(InvalidModel, match="Gymnasium environment must be given; got str"):
        export.wrapper("FrozenLake-v1", PAY)
    with pytest.raises(InvalidModel, match="Objective or a Recovery must be given; got MDP"):
        export.environment(LIFE, LIFE)
    with pytest.raises(InvalidModel, match="max_steps must be a positive integer; got 0"):
        export.environment(LIFE, PAY, max_steps=0)


@pytest.fixture(scope="module")
def recovery() -> tacit.Recovery:
    seen = tacit.simulate(WORLD.mdp, SOLVED.policy, trajectories=60, steps=30)
    return tacit.recover(WORLD.mdp, WORLD.features, seen, estimator=tacit.Explanation())


def test_a_recovery_as_a_frame_with_names(recovery):
    names = Layout(state_names=tuple("abcdef"), action_names=("left", "right", "wait"))
    frame = export.frame(recovery, names)
    assert frame.columns == [
        *("state", "state_name", "action", "action_name"),
        *("reward", "cost_0", "cost_1", "policy", "visitation"),
    ]
    assert frame.row(5)[:4] == (1, "b", 2, "wait")
    reward, costs = recovery.objective.tables(WORLD.mdp)
    assert np.array_equal(frame["reward"].to_numpy().reshape(6, 3), reward)
    for k in (0, 1):
        assert np.array_equal(frame[f"cost_{k}"].to_numpy().reshape(6, 3), costs[k])
    assert np.array_equal(frame["policy"].to_numpy().reshape(6, 3), recovery.solution.policy)
    found = frame.group_by("state").agg(polars.col("visitation").sum())["visitation"].sum()
    assert found == pytest.approx(5.0, rel=1e-6)  # 1 / (1 - discount), to the solver's tolerance


def test_an_objective_of_states_has_one_row_a_state():
    assert export.frame(PAY, NAMES).write_csv().splitlines() == [
        "state,state_name,reward,cost_0",
        "0,work,1.0,2.0",
        "1,home,0.0,0.0",
        "2,mine,5.0,0.0",
    ]


def test_a_reward_of_states_is_repeated_for_each_action():
    mixed = Objective([1, 2], [[[3, 4, 5], [6, 7, 8]]], [1])
    frame = export.frame(mixed)
    assert frame["reward"].to_list() == [1, 1, 1, 2, 2, 2]
    assert frame["cost_0"].to_list() == [3, 4, 5, 6, 7, 8]
    assert frame["action_name"].to_list() == ["action 0", "action 1", "action 2"] * 2


def test_frames_and_datasets_hold_the_arrays_under_their_names():
    seen = tacit.simulate(WORLD.mdp, SOLVED.policy, trajectories=40, steps=20, seed=0)
    found = tacit.recover(WORLD.mdp, WORLD.features, seen, throw=False)
    layout = Layout(state_names=tuple("abcdef"), action_names=("x", "y", "z"))
    rows = export.frame(found, layout)
    assert isinstance(rows, polars.DataFrame)
    row = rows.filter((polars.col("state_name") == "c") & (polars.col("action_name") == "z"))
    assert row["policy"].item() == found.solution.policy[2, 2]
    assert row["cost_1"].item() == found.objective.tables(WORLD.mdp)[1][1, 2, 2]
    assert "policy" not in export.frame(WORLD.truth).columns
    with pytest.raises(InvalidModel, match="must name all 6 states; it names 3"):
        export.frame(found, NAMES)
