"""Hard constraints: p-values against enumeration and likelihoods, and what is found with them."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import betaln, softmax

import tacit
from tacit.errors import InvalidModel
from tacit.estimators.forbidden.candidates import candidates_of
from tacit.estimators.forbidden.chains import StepsPosterior, WalksPosterior
from tacit.estimators.forbidden.posterior import Belief, SetChain, within_level
from tacit.estimators.forbidden.selection import ReducedWorld
from tacit.estimators.forbidden.steps import Steps
from tacit.estimators.forbidden.walks import MOST_STATES_INVERTED, Walks
from tacit.forward.avoidance import Avoiding, Coverage
from tacit.inference.findings import Finding, Kind
from tacit.model.closure import close

MOVES = [(0, -1), (0, 1), (1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1)]


def grid(size, goal, *, moves=8, slip=0.0, discount=1.0):
    """A grid that ends at the goal; moves off it are not there, and some slip to the next one."""
    states = size * size
    aims = np.full((states, moves), -1)
    for s in range(states):
        for a, (down, right) in enumerate(MOVES[:moves]):
            row, column = s // size + down, s % size + right
            if s != goal and 0 <= row < size and 0 <= column < size:
                aims[s, a] = row * size + column
    available = aims >= 0
    table = np.zeros((states, moves, states))
    for s, a in np.argwhere(available):
        other = aims[s, np.flatnonzero(available[s])]
        table[s, a, aims[s, a]] += 1.0 - slip
        for there in other:
            table[s, a, there] += slip / len(other)
    return tacit.MDP(table, np.eye(states)[0], discount, available=available)


def walking(mdp, goal, extra=()):
    """Features: every step, the goal, and costs of state sets."""
    at_goal = np.eye(mdp.states)[goal]
    sets = np.zeros((mdp.states, len(extra)))
    for j, members in enumerate(extra):
        sets[list(members), j] = 1.0
    costs = [sets] if extra else []
    names = [[f"set {j}" for j in range(len(extra))]] if extra else []
    return tacit.Features(np.stack([1.0 - at_goal, at_goal], 1), costs, ["step", "goal"], names)


def without(mdp, states=(), actions=()):
    """The same world, nothing leading into these states and none of these actions."""
    available = mdp.available.copy()
    available[:, list(actions)] = False
    into = mdp.dense()[:, :, list(states)].sum(axis=2) > 0
    return replace(mdp, available=available & ~into)


def expert(mdp, features, weights, temperature=1.0):
    solver = tacit.SoftDual(temperature, 1e-12)
    return tacit.solve(
        mdp,
        features.objective(
            weights,
            [np.zeros(t.shape[-1]) for t in features.costs],
            np.full(features.constraints, np.inf),
        ),
        solver=solver,
    )


def avoided(mdp, policy, start, pairs, states, *, steps=None, least=1e-12):
    """Chance of no forbidden pair or state on the way: every path is walked, but for the rarest."""
    dense = mdp.dense()

    def onward(state, chance, left):
        if state in states or chance < least:
            return 0.0
        if left == 0 or mdp.ends[state]:
            return chance
        total = 0.0
        for action in np.flatnonzero(mdp.available[state]):
            if (state, action) in pairs:
                continue
            for after in np.flatnonzero(dense[state, action]):
                odds = policy[state, action] * dense[state, action, after]
                total += onward(int(after), chance * odds, -1 if left < 0 else left - 1)
        return total

    return onward(start, 1.0, -1 if steps is None else steps)


def risky(mdp, states):
    """The pairs outside that may lead into the states."""
    into = mdp.dense()[:, :, list(states)].sum(axis=2) > 0
    return {(s, a) for s, a in np.argwhere(into).tolist() if s not in states}


@pytest.mark.parametrize(("slip", "steps"), [(0.0, None), (0.2, None), (0.2, 4)])
def test_p_values_are_the_chances_of_all_paths(slip, steps):
    mdp = grid(2, 3, moves=4, slip=slip)
    features = walking(mdp, 3)
    policy = expert(mdp, features, [-4.0, 1.0]).policy
    found = candidates_of(mdp, features, ("states", "actions", "pairs"), [])
    starts = np.array([0, 2])
    closure = close(mdp, [[one] for one in found])
    kinds = Avoiding(mdp, policy, closure.removed, closure.dead)
    logs = kinds.total(starts, np.full(2, steps or 0), np.ones(2))
    np.testing.assert_array_equal(logs, kinds.logs(starts, np.full(2, steps or 0)).sum(axis=0))
    assert len(found) > 10
    least = 1e-7 if slip and not steps else 1e-12
    for one, log in zip(found, logs, strict=True):
        k = found.index(one)
        pairs = {divmod(p, 4) for p in np.flatnonzero(closure.removed[:, k]).tolist()}
        dead = set(np.flatnonzero(closure.dead[:, k]).tolist())
        by_hand = np.prod(
            [avoided(mdp, policy, s, pairs, dead, steps=steps, least=least) for s in starts]
        )
        # Chances of the rarest paths are left out, some thousands of them.
        assert np.exp(log) == pytest.approx(by_hand, abs=1e-9 if not slip or steps else 1e-4)
        if one.kind == "state" and 3 not in dead and not slip:
            assert pairs == risky(mdp, [one.index])


def test_the_p_value_of_complete_trips_without_chance_is_the_likelihood_gained():
    mdp = grid(4, 15)
    features = walking(mdp, 15)
    weights = np.array([-3.0, 2.0])
    whole = expert(mdp, features, weights, 0.8)
    found = candidates_of(mdp, features, ("states", "actions"), [])
    starts, many = np.array([0, 5]), np.array([2, 1])
    closure = close(mdp, [[one] for one in found])
    kinds = Avoiding(mdp, whole.policy, closure.removed, closure.dead)
    logs = kinds.total(starts, np.zeros(2, int), many)
    origins = np.bincount(starts, many, minlength=16)
    tried = 0
    for k, _ in enumerate(found):
        if closure.dead[starts, k].any():
            assert logs[k] == -np.inf
            continue
        there = mdp.available & ~closure.removed[:, k].reshape(16, 8)
        less = expert(replace(mdp, available=there), features, weights, 0.8)
        gain = origins @ (whole.values - less.values) / 0.8
        assert np.exp(logs[k]) == pytest.approx(np.exp(-gain), rel=1e-9, abs=1e-12)
        tried += 1
    assert tried > 15


def test_a_corridor_that_leads_nowhere_is_closed_as_well():
    chain = np.zeros((5, 2, 5))
    # 0 -> 1 -> 2 -> 4 and 0 -> 3 -> 4; without state 2, state 1 is a dead end.
    for s, a, after in [(0, 0, 1), (1, 0, 2), (2, 0, 4), (0, 1, 3), (3, 0, 4)]:
        chain[s, a, after] = 1.0
    mdp = tacit.MDP(chain, np.eye(5)[0], 1.0, available=chain.any(axis=2))
    features = tacit.Features(np.ones((5, 1)) - np.eye(5)[:, [4]])
    state = [one for one in candidates_of(mdp, features, ("states",), []) if one.index == 2]
    closure = close(mdp, [state])
    assert closure.dead[:, 0].tolist() == [False, True, True, False, False]
    assert np.flatnonzero(closure.removed[:, 0]).tolist() == [0]
    masked = mdp.available & ~closure.removed.reshape(5, 2)
    replace(mdp, available=masked)  # a world in which every state still reaches the end


@cache
def forbidding():
    """A 5 x 5 grid where the middle and one diagonal are forbidden, seen 60 times."""
    mdp = grid(5, 24)
    features = walking(mdp, 24, extra=[(12, 11)])
    weights = np.array([-2.0, 3.0])
    policy = expert(without(mdp, states=(11, 12, 7), actions=(7,)), features, weights).policy
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=400, seed=3)
    assert seen.ended.all()
    return mdp, features, weights, seen


@pytest.mark.parametrize("known", ["all", "weights", "nothing"])
def test_what_is_forbidden_is_found_and_nothing_else(known):
    mdp, features, weights, seen = forbidding()
    reward = None if known == "nothing" else weights
    estimator = tacit.Forbidden(reward=reward, temperature=1.0 if known == "all" else None)
    recovery = estimator.fit(mdp, features, seen, throw=False)
    names = {one.name for one in recovery.forbidden}
    assert {"set 0 = 1", "state 7"} <= names <= {"set 0 = 1", "state 7", "action 7"}
    assert all(one.p_value <= 0.05 and one.more == 0 for one in recovery.forbidden)
    told = [f for f in recovery.identification.findings if f.kind is Kind.FORBIDDEN]
    assert len(told) == len(names)
    assert {f.about.state for f in told} >= {7}
    # The mask is that of the recovered world, and no demonstration contradicts it.
    entering = mdp.dense()[:, :, [7, 11, 12]].sum(axis=2) > 0
    entering[[7, 11, 12]] = False
    assert not recovery.available[entering].any()
    assert recovery.available[seen.states, seen.actions].all()
    assert not recovery.solution.policy[~recovery.available].any()
    # All trips reach the goal: only the cost of a step is told.
    assert recovery.reward_weights[0] / recovery.temperature == pytest.approx(-2.0, abs=0.5)
    assert recovery.goodness.p_value > 0.001  # one draw
    open_names = {one.name for one in recovery.undecided}
    assert not open_names & names
    assert not open_names & {"state 11", "state 12"}  # settled by their set
    assert [one.p_value for one in recovery.undecided] == sorted(
        one.p_value for one in recovery.undecided
    )


def test_more_demonstrations_decide_what_few_leave_open():
    mdp, features, weights, seen = forbidding()
    kinds = ("states", "actions")  # without its action nothing would fit what was seen
    estimator = tacit.Forbidden(reward=weights, temperature=1.0, candidates=kinds)
    few = estimator.fit(mdp, features, seen.select([0]))
    open_ones = {one.name: one for one in few.undecided}
    one = open_ones["state 7"]
    assert one.p_value > 0.05
    assert 0 < one.more < np.inf
    assert any(f.kind is Kind.NOT_IDENTIFIED for f in few.identification.findings)
    many = estimator.fit(mdp, features, seen)
    assert "state 7" in {one.name for one in many.forbidden}
    assert 1 + one.more <= 60


def test_nothing_forbidden_is_nothing_found():
    mdp, features, weights, _ = forbidding()
    policy = expert(mdp, features, weights).policy
    wrong = 0
    for seed in range(8):
        seen = tacit.simulate(mdp, policy, trajectories=5, steps=400, seed=seed)
        estimator = tacit.Forbidden(reward=weights, temperature=1.0)
        wrong += bool(estimator.fit(mdp, features, seen).forbidden)
    assert wrong <= 2  # of 8 at the level .05: more has a chance of .006


def test_trajectories_of_a_discounted_world_that_were_cut_off():
    mdp = grid(3, 8, moves=4, slip=0.05, discount=0.9)
    features = walking(mdp, 8)
    weights, pair = np.array([-1.0, 4.0]), (0, 1)
    there = mdp.available.copy()
    there[pair] = False
    policy = expert(replace(mdp, available=there), features, weights, 0.5).policy
    seen = tacit.simulate(mdp, policy, trajectories=40, steps=3, seed=1)
    assert not seen.ended.all()
    estimator = tacit.Forbidden(reward=weights, temperature=0.5, candidates=("pairs",))
    recovery = estimator.fit(mdp, features, seen)
    assert [one.index for one in recovery.forbidden] == [pair]
    told = [f.about for f in recovery.identification.findings if f.kind is Kind.FORBIDDEN]
    assert [(about.state, about.action) for about in told] == [pair]


def test_a_recovery_with_hard_constraints_comes_back_from_its_folder(tmp_path):
    mdp, features, weights, seen = forbidding()
    saved = tacit.Forbidden(reward=weights, temperature=1.0).fit(mdp, features, seen)
    saved.save(tmp_path / "run")
    loaded = tacit.Recovery.load(tmp_path / "run")
    for part in ("forbidden", "undecided", "simplest"):
        assert repr(getattr(loaded, part)) == repr(getattr(saved, part))  # NaN is no NaN's equal
    np.testing.assert_array_equal(loaded.available, saved.available)
    assert "forbidden" in loaded.summary()
    assert {one.states for one in loaded.forbidden} >= {(7,), (11, 12)}
    assert any(one.strict for one in loaded.forbidden)


def test_what_is_forbidden_leaves_with_every_export():
    gymnasium = pytest.importorskip("gymnasium")
    mdp, features, weights, seen = forbidding()
    found = tacit.Forbidden(reward=weights, temperature=1.0).fit(mdp, features, seen)
    world = tacit.export.environment(mdp, found)
    assert isinstance(world, gymnasium.Env)
    state, info = world.reset(seed=0)
    assert info["action_mask"].tolist() == found.available[0].tolist()
    assert found.available[0].sum() < mdp.available[0].sum() or found.available[6].sum() < 8
    # Whoever keeps to the mask enters nothing that is forbidden.
    draw = np.random.default_rng(0)
    for _ in range(300):
        action = draw.choice(np.flatnonzero(info["action_mask"]))
        state, _, over, _, info = world.step(action)
        assert state not in (7, 11, 12)
        assert "refused" not in info
        if over:
            state, info = world.reset()
    shut = np.argwhere(mdp.available & ~found.available)[0]
    world.unwrapped._state = int(shut[0])
    assert world.step(int(shut[1]))[4]["refused"]
    with pytest.raises(InvalidModel, match="must be of"):
        tacit.export.environment(grid(2, 3), found)
    column = tacit.export.frame(found)["available"].to_numpy()
    np.testing.assert_array_equal(column, found.available.ravel())


def test_the_report_has_a_map_and_a_table_of_what_is_forbidden(tmp_path):
    from tacit.folders.runs import Run
    from tacit.show.html import render
    from tacit.show.maps import forbidden_blocks
    from tacit.show.page import recovery_document
    from tacit.show.quantities import NamedRecovery
    from tacit.show.report import by_name, headlines

    mdp, features, weights, seen = forbidding()
    found = tacit.Forbidden(reward=weights, temperature=1.0).fit(mdp, features, seen.select([0]))
    found.save(tmp_path / "run")
    run = replace(Run.load(tmp_path / "run"), layout=tacit.worlds.Layout(5, 5))
    document = recovery_document(run)
    (section,) = [one for one in document.sections if one.title == "What is forbidden"]
    _, table = section.blocks
    verdicts = [row.cells[2] for row in table.rows]
    assert verdicts.count("forbidden") == len(found.forbidden)
    assert verdicts.count("undecided") == len(found.undecided)
    assert "forbidden" in render(document)
    hidden = recovery_document(run, private=True)
    assert "What is forbidden" not in [one.title for one in hidden.sections]
    # What is forbidden is what it refuses, by the names of the places; a pair is named so, too.
    every = {one.name: one for one in (*found.undecided, *found.forbidden)}
    pair = {"state 8": "state 13", "state 13": "state 8"}
    made = [replace(every["state 8"], name=one, index=int(one[6:])) for one in pair]
    either = [replace(one, rival=pair[one.name], neither=0.01) for one in made]
    open_to = [every["state 7"], *either]
    said = (Finding("Said of state 7.", Kind.FORBIDDEN, state=7),)
    shut = replace(
        found,
        forbidden=tuple(open_to[:1]),
        undecided=tuple(open_to[1:]),
        identification=replace(found.identification, findings=said),
    )
    named = NamedRecovery(by_name(shut, run.layout), run.layout, False)
    told = {one.label: one for one in headlines(named)}
    assert "**(1, 2)**" in told["What it refuses"].text
    assert "(1, 3) or (2, 3)" in told["What it refuses"].detail
    assert said[0] not in told["What cannot be told"].text
    *_, table = forbidden_blocks(named)
    assert [row.cells[-1] for row in table.rows] == ["–", "(2, 3)", "(1, 3)"]
    # Likelihood's separation is in the same table; nothing forbidden makes no section.
    plain = tacit.Likelihood(free_reward=True).fit(mdp, walking(mdp, 24), seen, throw=False)
    plain.save(tmp_path / "plain")
    told = recovery_document(Run.load(tmp_path / "plain"))
    assert "What is forbidden" not in [one.title for one in told.sections]


def test_likelihood_fills_the_same_fields_by_its_separation():
    mdp = grid(4, 15)
    features = walking(mdp, 15, extra=[(5, 6)])
    policy = expert(without(mdp, states=(5, 6)), features, [-2.0, 3.0]).policy
    seen = tacit.simulate(mdp, policy, trajectories=80, steps=400, seed=0)
    recovery = tacit.Likelihood(free_reward=True).fit(mdp, features, seen, throw=False)
    told = [f for f in recovery.identification.findings if f.kind is Kind.FORBIDDEN]
    assert [f.about.feature for f in told] == ["set 0"]
    assert [one.name for one in (*recovery.forbidden, *recovery.undecided)] == ["set 0"]
    assert recovery.available is None


def test_what_is_paid_where_all_begin_is_not_forbidden():
    # From 0 by 1, 2 or 4 to the end 3; nobody comes back to 0, and nobody goes by 2.
    table = np.zeros((5, 3, 5))
    ways = [(0, 0, 1), (0, 1, 2), (0, 2, 4), (1, 0, 3), (1, 1, 0), (2, 0, 3), (4, 0, 3), (4, 1, 1)]
    for s, a, after in ways:
        table[s, a, after] = 1.0
    mdp = tacit.MDP(table, np.eye(5)[0], 0.9, available=table.any(axis=2))
    names = [f"state {s}" for s in range(3)]
    features = tacit.Features(np.eye(5)[:, 3:4], [np.eye(5)[:, :3]], ["goal"], [names])
    trips = [([0, 1, 3], [0, 0]), ([0, 4, 3], [2, 0]), ([0, 4, 1, 3], [2, 1, 0])] * 15
    seen = tacit.Demonstrations.from_trajectories(trips)
    found = tacit.Likelihood(temperature=0.5, level=1.0).fit(mdp, features, seen, throw=False)
    assert [one.name for one in (*found.forbidden, *found.undecided)] == ["state 2"]
    said = found.identification.findings
    shut = {f.about.feature for f in said if f.kind is tacit.Kind.FORBIDDEN}
    assert shut == {"state 2"}


def test_a_noise_that_was_given_wrong_is_said():
    mdp, features, weights, _ = forbidding()
    policy = expert(without(mdp, states=(11, 12, 7)), features, weights).policy
    seen = tacit.simulate(mdp, policy, trajectories=60, steps=400, seed=3)
    for temperature, fits in ((1.0, True), (0.4, False)):
        estimator = tacit.Forbidden(weights, temperature, candidates=("states",))
        found = estimator.fit(mdp, features, seen, throw=False)
        (part,) = [one for one in found.goodness.parts if one.name == "noise"]
        assert (part.p_value > 0.01) == fits
        # Twice the gain of the best noise, by another estimator in the same world.
        left = replace(mdp, available=found.available)
        alone = tacit.Features(features.reward, reward_names=features.reward_names)
        free = tacit.ConstraintOnly(weights).fit(left, alone, seen, throw=False)
        gain = 2.0 * (free.log_likelihood - found.log_likelihood)
        assert part.statistic == pytest.approx(gain, abs=1e-6)
        findings = found.identification.findings
        names, seen_as = ({one.name for one in part} for part in (found.forbidden, found.undecided))
        looks = {"state 7", "state 11", "state 12"}
        if fits:
            assert names == looks
        else:  # names are promised at a level for a model that fits alone
            assert not names
            assert looks <= seen_as
            assert findings[0].kind is Kind.MISFIT
            assert not [one for one in findings if one.kind is Kind.FORBIDDEN]
            assert all(np.isnan(one.more) and not one.rival for one in found.undecided)
            # The world of the recovery stays the one that was judged.
            assert not found.solution.policy[~found.available].any()
            assert (mdp.available & ~found.available).any()
    # Nothing is tested where it was not given.
    found = tacit.Forbidden(weights, candidates=("states",)).fit(mdp, features, seen, throw=False)
    assert "noise" not in [one.name for one in found.goodness.parts]


def test_bad_input_is_one_clear_line():
    mdp, features, weights, seen = forbidding()
    for options, said in (
        ({"candidates": ("state",)}, "candidates must be of"),
        ({"candidates": ()}, "no candidates"),
        ({"level": 1.0}, "level must be in"),
        ({"temperature": 1.0}, "units of a known reward"),
        ({"reward": [0.0, 0.0]}, "not all 0"),
        ({"reward": weights, "temperature": -1.0}, "positive number"),
        ({"groups": {"a": [0.5]}}, "whole numbers"),
    ):
        with pytest.raises(InvalidModel, match=said):
            tacit.Forbidden(**options)
    for options, said in (
        ({"reward": [1.0]}, r"shape \(2,\)"),
        ({"groups": {"a": [25]}}, "group 'a' has 25"),
        ({"groups": {"a": []}}, "holds none"),
        ({"groups": {"a": [11], "b": [12, 11]}}, "'a' and 'b' both hold state 11"),
        ({"groups": {"a": [(11, 0)], "b": [11]}}, "both hold state 11"),
        ({"groups": {"a": [0]}}, "episode 0, step 0 takes action"),
        ({"groups": {"a": [24]}}, "'a' is: episode 0 ends in state 24"),
        ({"groups": {"a": [(0, 1)]}}, "episode 0, step 0 takes action 1 in state 0"),
    ):
        with pytest.raises(InvalidModel, match=said):
            tacit.Forbidden(**{"reward": weights, "temperature": 1.0} | options).fit(
                mdp, features, seen
            )
    taken = tacit.Forbidden(reward=weights, temperature=1.0, candidates=("actions",))
    chain = grid(2, 3, moves=4)
    policy = expert(chain, walking(chain, 3), weights).policy
    walks = tacit.simulate(chain, policy, trajectories=200, steps=400, seed=0)
    with pytest.raises(InvalidModel, match="no demonstration takes; all 4"):
        taken.fit(chain, walking(chain, 3), walks)
    with pytest.raises(tacit.InvalidDemonstrations):
        tacit.Forbidden(reward=weights).fit(mdp, features, "nothing")


TRUE = {f"state {s}" for s in (31, 39, 41, 47, 51)} | {"action 4", "action 5", "blue", "green"}
BLUE = {"state 4", "state 13", "state 22"}
# Sets of demonstrations, and the recall of the simplest explanation.
SETS = {1: (1, 0.55), 20: (1, 7 / 9), 100: (1, 7 / 9)}


def scobee(data):
    """Scobee and Sastry's grid: (world, features, ten sets of (states, actions))."""
    path = data / "scobee" / "scobee_example_trajectories.json"
    if not path.exists():
        pytest.skip("TACIT_DATA does not hold Scobee and Sastry's trajectories")
    sets = json.loads(path.read_text())[0]["trajs"]
    mdp = grid(9, 8)
    return (
        mdp,
        walking(mdp, 8),
        [list(zip(one["state_seq"], one["action_seq"], strict=True)) for one in sets],
    )


COLOURS = {"blue": [4, 13, 22], "green": [58, 67, 76]}


def test_the_nine_by_nine_grid_of_scobee_and_sastry(data):
    mdp, features, sets = scobee(data)
    estimator = tacit.Forbidden(
        reward=[-4.0, 10.0], temperature=1.0, candidates=("states", "actions"), groups=COLOURS
    )
    for n, (many, recall) in SETS.items():
        found = []
        for trips in sets[:many]:
            seen = tacit.Demonstrations.from_trajectories(trips[:n], ended=[True] * n)
            recovery = estimator.fit(mdp, features, seen)
            names = {one.name for one in recovery.forbidden}
            # What is named is forbidden; the simplest explanation finds more, without a level.
            assert names
            assert not names - TRUE - BLUE
            assert recovery.goodness.adequate
            simplest = {one.name for one in recovery.simplest}
            found.append(len(simplest & TRUE) / 9)
            assert not simplest - TRUE
        assert np.mean(found) >= recall - 1e-12


def test_wrong_step_costs_on_that_grid_do_not_fit(data):
    mdp, _, sets = scobee(data)
    step = np.zeros((81, 8, 2))
    step[:, :, 0] = np.where(np.arange(8) < 4, 1.0, np.sqrt(2.0))
    step[8, :, 0], step[8, :, 1] = 0.0, 1.0
    estimator = tacit.Forbidden(
        reward=[-4.0, 10.0], temperature=1.0, candidates=("states", "actions"), groups=COLOURS
    )
    seen = tacit.Demonstrations.from_trajectories(sets[3], ended=[True] * 100)
    recovery = estimator.fit(mdp, tacit.Features(step), seen)
    assert not recovery.goodness.adequate
    assert recovery.identification.findings[0].kind is Kind.MISFIT
    # What looks forbidden mends how often each action is taken: the noise tells, and what follows.
    assert "noise" in recovery.goodness.failed
    assert any(f.kind is Kind.MISFIT for f in recovery.identification.findings[1:])  # of the names
    assert recovery.goodness.p_value < 1e-6


def two_ways():
    """A cheap way 0, 1, 2, 4 that nobody takes, and 0, 3, 4: world, features, nine trips."""
    chain = np.zeros((5, 2, 5))
    for s, a, after in [(0, 0, 1), (1, 0, 2), (2, 0, 4), (0, 1, 3), (3, 0, 4)]:
        chain[s, a, after] = 1.0
    mdp = tacit.MDP(chain, np.eye(5)[0], 1.0, available=chain.any(axis=2))
    trips = [([0, 3, 4], [1, 0])] * 9
    seen = tacit.Demonstrations.from_trajectories(trips, ended=[True] * 9)
    return mdp, tacit.Features(np.eye(5)[:, [3]]), seen


def test_of_two_candidates_that_take_the_same_away_one_is_forbidden():
    mdp, features, seen = two_ways()
    estimator = tacit.Forbidden(reward=[-1.0], temperature=1.0, candidates=("states",))
    recovery = estimator.fit(mdp, features, seen)
    assert recovery.forbidden == ()
    rivals = {one.name: one.rival for one in recovery.undecided if one.rival}
    assert rivals == {"state 1": "state 2", "state 2": "state 1"}
    chance = 1.0 / (1.0 + np.e)  # of the dear way, where both are allowed
    # Prior odds of 1 to 12 that one is forbidden where the other is not; five candidates in all.
    odds = 2 / 13 + 2 / (12 * 13)
    neither = 1.0 / (1.0 + odds / chance**9)
    for one in recovery.undecided[:2]:
        assert one.neither == pytest.approx(neither, abs=1e-3)
    assert [one.name for one in recovery.simplest] == ["state 1"]
    assert recovery.simplest[0].p_value == pytest.approx(chance**9, rel=1e-9)
    assert recovery.available[0].tolist() == [False, True]
    said = [f for f in recovery.identification.findings if f.about.state in (1, 2)]
    assert [f.kind for f in said] == [Kind.NOT_IDENTIFIED]


def test_what_is_forbidden_is_said_by_the_names_of_a_layout(tmp_path, capsys):
    from tacit.cli import main
    from tacit.folders.problem import Problem
    from tacit.show.report import by_name

    mdp, features, seen = two_ways()
    layout = tacit.worlds.Layout(
        state_names=("home", "ford", "mill", "road", "end"), action_names=("first", "second")
    )
    for kinds, names in ((("states",), {"ford", "mill"}), (("pairs",), {"first in home"})):
        estimator = tacit.Forbidden([-1.0], 1.0, candidates=kinds)
        for recovery in (
            estimator.fit(mdp, features, seen),
            estimator.fit(mdp, features, seen.select([0, 1])),
        ):
            named = by_name(recovery, layout)
            said, known = named.identification.findings, recovery.identification.findings
            # The same findings about the same numbers; nothing is called by its number.
            assert [(f.kind, f.about) for f in said] == [(f.kind, f.about) for f in known]
            text = " ".join(recovery.summary(layout).split("Findings")[1].split())
            assert all(" ".join(f.split()) in text for f in said if f.kind is not Kind.MISFIT)
            spoken = [f for f in said if f.kind in (Kind.FORBIDDEN, Kind.NOT_IDENTIFIED)]
            assert spoken
            assert not any("state " in f or "action " in f for f in spoken)
            spoken_of = (*named.forbidden, *named.simplest, *named.undecided)
            assert names & {one.name for one in spoken_of}
            assert {one.rival for one in named.undecided} <= {"", "ford", "mill", *names}
            assert [one.index for one in named.undecided] == [o.index for o in recovery.undecided]
    # A group keeps its name, even where that looks like a state's.
    group = tacit.Forbidden([-1.0], 1.0, candidates=(), groups={"state 3": [1]})
    assert [o.name for o in by_name(group.fit(mdp, features, seen), layout).forbidden] == [
        "state 3"
    ]
    # The command line says it so, too, and keeps the numbers beside it.
    Problem(mdp=mdp, features=features, demonstrations=seen, layout=layout).save(tmp_path / "p")
    words = ["recover", str(tmp_path / "p"), "--estimator", "forbidden", "--candidates", "states"]
    words += ["--reward", "-1", "--temperature", "1", "--no-report", "--json"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    pair = [one for one in found if one["about"].get("state") in (1, 2)]
    assert {one["sentence"].split()[0] for one in pair} <= {"Ford", "Mill"}
    assert len(pair) == 1


def test_the_p_values_of_all_that_is_tested_add_up_to_the_level():
    nothing = np.zeros(4, bool)
    mdp = grid(2, 3)
    closure = close(mdp, [[]])
    logs = np.log([0.01, 0.03, 0.02, 1.0])
    world = ReducedWorld(
        mdp=mdp,
        own=closure,
        closure=closure,
        logs=logs,
        broken=nothing,
        idle=nothing,
    )
    assert world.tested(0.05).tolist() == [True, False, True, False]
    assert world.tested(0.061).tolist() == [True, True, True, False]


def small(kind):
    """Likelihoods of sets on a 4 x 4 grid of up to ten candidates: complete walks, or cut off."""
    mdp = grid(4, 15, moves=4)
    features, steps = walking(mdp, 15), 400 if kind == "walks" else 5
    groups = {"two": [6, 9]} if kind == "walks" else {}
    policy = expert(without(mdp, states=(5, 6, 9)), features, [-2.0, 3.0]).policy
    seen = tacit.simulate(mdp, policy, trajectories=8, steps=steps, seed=5)
    estimator = tacit.Forbidden([-2.0, 3.0], 1.0, candidates=("states",), groups=groups)
    search = estimator.selection(mdp, features, seen)
    nothing = search.world(())
    possible = np.flatnonzero(~nothing.broken & nothing.closure.removed.any(axis=0))
    likelihood = Steps(search, seen)
    if kind == "walks":
        possible = possible[:9]
        likelihood = Walks(mdp, search.site((), nothing.own)[1], search.candidates, search.seen)
    posterior_of = WalksPosterior if kind == "walks" else StepsPosterior
    posterior = posterior_of(
        likelihood=likelihood,
        possible=possible,
        count=len(search.candidates),
        level=0.05,
        episodes=6,
    )
    return search, Steps(search, seen), posterior


@pytest.mark.parametrize("kind", ["walks", "steps"])
def test_the_sampler_has_the_posterior_of_all_sets(kind):
    _, exact, posterior = small(kind)
    count, possible = posterior.count, posterior.possible
    assert 4 <= len(possible) <= 10
    heights, sets = [], []
    for number in range(2 ** len(possible)):
        chosen = np.zeros(count, bool)
        chosen[possible[[bool(number >> n & 1) for n in range(len(possible))]]] = True
        size = int(chosen.sum())
        heights.append(exact(chosen) + betaln(1 + size, 9 + count - size))
        sets.append(~chosen & ~posterior.likelihood.idle(chosen))
    weights = np.exp(np.array(heights) - max(heights))
    allowed = weights @ np.array(sets) / weights.sum()
    belief = posterior.belief([])
    assert belief.agreed
    errors = belief.allowed[possible] - allowed[possible]
    # The larger of two chains, with two errors: above, and not by much.
    assert errors.min() > -0.02
    assert errors.max() < 0.12
    named = possible[within_level(allowed[possible], 0.05)].tolist()
    assert belief.names
    assert set(belief.names) <= set(named)


def test_the_chance_of_one_given_the_rest_is_that_of_two_sets():
    """The odds that a jump uses are those of the whole posterior, prior of the size included."""
    _, _, posterior = small("steps")
    rng = np.random.default_rng(0)
    for _ in range(10):
        chosen = np.zeros(posterior.count, bool)
        chosen[posterior.possible] = rng.random(len(posterior.possible)) < 0.5
        changes = posterior.likelihood.changes(chosen, posterior.possible)
        found = posterior.outside(chosen, posterior.possible, changes)
        for k, chance in zip(posterior.possible.tolist(), found.tolist(), strict=True):
            heights = [
                posterior.height(np.where(np.arange(posterior.count) == k, inside, chosen))
                for inside in (False, True)
            ]
            assert chance == pytest.approx(1.0 / (1.0 + np.exp(heights[1] - heights[0])))


def test_a_wide_candidate_is_drawn_with_what_is_within_it():
    """Each set as often as the posterior given all that is not drawn has it."""
    _, exact, posterior = small("walks")
    count, draws, rng = posterior.count, 4000, np.random.default_rng(0)
    ((wide, within),) = posterior.within.items()
    drawn = [wide, *within.tolist()]
    assert len(drawn) == 3  # a group of two states, and both
    chosen = np.zeros(count, bool)
    chosen[[k for k in posterior.possible.tolist() if k not in drawn][:2]] = True
    told = np.zeros(8)
    for _ in range(draws):
        found = posterior.drawn_afresh(chosen, wide, rng)
        told[found[drawn] @ [4, 2, 1]] += 1
        np.testing.assert_array_equal(np.delete(found, drawn), np.delete(chosen, drawn))
    heights = []
    for number in range(8):
        other = chosen.copy()
        other[drawn] = [bool(number & bit) for bit in (4, 2, 1)]
        size = int(other.sum())
        heights.append(exact(other) + betaln(1 + size, 9 + count - size))
    chances = softmax(heights)
    errors = np.sqrt(chances * (1.0 - chances) / draws)
    assert (np.abs(told / draws - chances) <= 4.0 * errors + 1.0 / draws).all()


def test_chains_are_made_longer_where_their_own_error_decides(monkeypatch):
    _, _, posterior = small("walks")
    runs, run = [], WalksPosterior.run
    monkeypatch.setattr(WalksPosterior, "run", lambda *given: runs.append(1) or run(*given))
    allowed = np.sort(posterior.belief([]).allowed)
    assert len(runs) == 2  # chances far from the level
    runs.clear()
    replace(posterior, level=float(allowed[0])).belief([])
    assert len(runs) > 2


def test_what_is_withheld_spends_nothing():
    belief = Belief(
        allowed=np.array([0.01, 0.4, 0.6]),
        names=[0],
        pairs=[(1, 2, 0.03)],
        strict=[True],
        more=np.array([0.0, 9.0, 9.0]),
        agreed=True,
    )
    assert belief.spent == pytest.approx(0.04)
    left = belief.withheld()
    assert (left.names, left.pairs, left.strict, left.spent) == ([], [], [], 0.0)
    assert np.isnan(left.more).all()
    np.testing.assert_array_equal(left.allowed, belief.allowed)


def test_pairs_share_no_candidate_and_add_up_to_the_level():
    """Of three that stand in for one another one pair is said; names have spent their part."""
    _, _, posterior = small("steps")
    count, possible = posterior.count, posterior.possible
    assert len(possible) >= 4
    sets = np.zeros((900, count), bool)
    for j, gone in enumerate([[0, 1], [0, 2], [1, 2]]):  # always two of the first three
        sets[j::3, possible[gone]] = True
    out = ~sets[:, possible]
    chain = SetChain(np.ones(len(sets)), sets, out, out.astype(float))
    told = posterior.pairs([chain, chain], [], 0.0)
    assert len(told) == 1
    assert len({*told[0][:2], *possible[:3].tolist()}) == 3
    assert told[0][2] == 0.0
    assert posterior.pairs([chain, chain], [0, 1], 0.0) == []
    assert posterior.pairs([chain, chain], [], 0.06) == []


def test_changes_by_single_flips_are_those_of_worlds_solved_afresh():
    search, exact, posterior = small("walks")
    walks, possible, rng = posterior.likelihood, posterior.possible, np.random.default_rng(0)
    for _ in range(20):
        chosen = np.zeros(posterior.count, bool)
        chosen[possible] = rng.random(len(possible)) < 0.4
        found = walks.changes(chosen, possible)
        again = exact.changes(chosen, possible)
        np.testing.assert_allclose(found, again, rtol=1e-8, atol=1e-8)
        others = np.zeros((3, posterior.count), bool)
        others[:, possible] = rng.random((3, len(possible))) < 0.4
        together = walks.changes_to(chosen, others)
        again = [exact(other) - exact(chosen) for other in others]
        np.testing.assert_allclose(together, again, rtol=1e-8, atol=1e-8)
        # And minus the log p-value of the candidate, given the rest.
        k = int(rng.choice(possible))
        rest = [j for j in np.flatnonzero(chosen).tolist() if j != k]
        log = search.log_chance(k, rest)
        assert abs(found[possible == k][0]) == pytest.approx(-log, abs=1e-8)


def test_updates_of_the_inverse_are_inversions():
    mdp = grid(13, 168, moves=4)
    assert mdp.states >= MOST_STATES_INVERTED
    features = walking(mdp, 168)
    policy = expert(mdp, features, [-2.0, 0.0]).policy
    seen = Coverage.of(mdp, tacit.simulate(mdp, policy, trajectories=4, steps=4000, seed=0))
    listed = candidates_of(mdp, features, ("states", "actions", "pairs"), [("set", (30, 60))])
    closure = close(mdp, [[one] for one in listed])
    possible = np.flatnonzero(~closure.broken_by(seen.taken, seen.visited))
    walks, rng = Walks(mdp, policy, listed, seen), np.random.default_rng(1)
    for _ in range(60):
        walks.flip(int(rng.choice(possible)))
    fresh = Walks(mdp, policy, listed, seen)
    fresh.restart(walks.chosen)
    np.testing.assert_allclose(walks.inverse, fresh.inverse, rtol=1e-6, atol=1e-9)
    asked = rng.choice(possible, 40, replace=False)
    found = walks.changes(walks.chosen, asked)
    np.testing.assert_allclose(found, fresh.changes(walks.chosen, asked), rtol=1e-7, atol=1e-8)


def test_what_nobody_can_enter_is_not_named():
    mdp, features, weights, seen = forbidding()
    shut = mdp.available & ~(mdp.dense()[:, :, 20] > 0)
    walled = replace(mdp, available=shut)
    trips = [e for e in range(60) if 20 not in seen.select([e]).states]
    found = tacit.Forbidden(weights, 1.0, candidates="states").fit(
        walled, features, seen.select(trips), throw=False
    )
    assert "state 20" not in {one.name for one in (*found.forbidden, *found.undecided)}


def test_names_add_up_to_the_level():
    chances = np.array([0.5, 0.03, 0.001, 0.02, 0.01])
    assert within_level(chances, 0.05) == [2, 4, 3]
    assert within_level(chances, 0.0005) == []


def test_a_strict_name_has_a_small_p_value_in_every_world():
    search, _, posterior = small("walks")
    belief = posterior.belief([])
    possible = posterior.possible
    nothing = np.zeros(posterior.count, bool)
    for k in possible.tolist():
        others = [int(j) for j in possible if j != k]
        worst = max(
            search.log_chance(k, [j for n, j in enumerate(others) if number >> n & 1])
            for number in range(2 ** len(others))
        )
        exact = worst <= np.log(posterior.level / posterior.count)
        assert posterior.strict(k, nothing) == exact
    assert len(belief.strict) == len(belief.names)
