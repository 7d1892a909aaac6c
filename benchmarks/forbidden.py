"""What `Forbidden` names where the truth is known: false names, and recall of what can be told.

    python benchmarks/forbidden.py     # 400 sets, 40 that slip, 60 of unknown and of wrong reward
    python benchmarks/forbidden.py --draws 30      # a quick look; writes as well
    python benchmarks/forbidden.py --diagonals     # what wrong step costs do, beside what is there

Fresh sets of three kinds of grids, reward and noise known: 10 x 8 with six forbidden cells; 8 x 8
with diagonal moves and rough ground, cells and actions forbidden; rooms with cells, colours and
named groups forbidden. Fewer sets where moves slip (a third of these cut off), where the reward
is estimated, and where it is told wrong: then a misfit should be said and nothing named. A name is
false where forbidding it takes more away than the truth does, a pair where
both of it do. The data can tell a candidate whose log-likelihood ratio is above 12 where all the
rest of the truth is forbidden; "in part" counts a set of which only a cell is named. Beside the
names stands the simplest explanation. Sets with a false name are judged against 5 % by the rule of
rates.py.

Published sets: the ten of Scobee and Sastry (2020), where TACIT_DATA names the folder that holds
`scobee/`, by the names, by the simplest explanation and by their own method; and what is said where
diagonal steps are made to cost 5.657 instead of 4. Writes benchmarks/results/forbidden.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import tacit
from families import likeliest
from provenance import about
from rates import rates_of, size_verdict
from tacit.estimators.forbidden.candidates import candidates_of
from tacit.model.closure import close

RESULTS = Path(__file__).parent / "results" / "forbidden.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
MOVES = [(0, -1), (0, 1), (1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1)]
KINDS = ("states", "actions")
# Gain in log-likelihood, the rest of the truth forbidden, from which on the data can tell.
TELLABLE = 12.0
TRUE = {f"state {s}" for s in (31, 39, 41, 47, 51)} | {"action 4", "action 5", "blue", "green"}
COLOURS = {"blue": [4, 13, 22], "green": [58, 67, 76]}


def grid(size: int, goal: int) -> tacit.MDP:
    """A grid that ends at the goal; moves off it are not there."""
    states = size * size
    table = np.zeros((states, len(MOVES), states))
    for s in range(states):
        for a, (down, right) in enumerate(MOVES):
            row, column = s // size + down, s % size + right
            if s != goal and 0 <= row < size and 0 <= column < size:
                table[s, a, row * size + column] = 1.0
    return tacit.MDP(table, np.eye(states)[0], 1.0, available=table.any(axis=2))


def walking(states: int, goal: int) -> tacit.Features:
    """Every step, and the goal."""
    at_goal = np.eye(states)[goal]
    return tacit.Features(np.stack([1.0 - at_goal, at_goal], axis=1), None, ["step", "goal"])


@dataclass(frozen=True)
class Draw:
    """One set of demonstrations whose truth is known.

    Attributes:
        mdp: the world with everything allowed.
        features: of the reward, and marks of states.
        weights: of the reward features, at noise 1.
        seen: what the demonstrator did.
        truth: names of what is forbidden.
        options: candidates and groups.
    """

    mdp: tacit.MDP
    features: tacit.Features
    weights: np.ndarray
    seen: tacit.Demonstrations
    truth: set[str]
    options: dict


def lattice(
    shape: tuple[int, int], moves: int, *, walls: set[int] = frozenset(), slip: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """[S, A, S] transitions and [S, A] what is there; the last cell ends, walls are not entered."""
    rows, columns = shape
    states = rows * columns
    aims = np.full((states, moves), -1)
    for s in range(states - 1):
        for a, (down, right) in enumerate(MOVES[:moves]):
            row, column = s // columns + down, s % columns + right
            if 0 <= row < rows and 0 <= column < columns and row * columns + column not in walls:
                aims[s, a] = row * columns + column
    table = np.zeros((states, moves, states))
    for s, a in np.argwhere(aims >= 0).tolist():
        table[s, a, aims[s, a]] += 1.0 - slip
        for other in [2, 3] if a < 2 else [0, 1]:  # sideways, or nowhere
            table[s, a, aims[s, other] if aims[s, other] >= 0 else s] += 0.5 * slip
    return table, aims >= 0


def drawn(
    rng: np.random.Generator,
    model: tuple[np.ndarray, np.ndarray, np.ndarray],
    features: tacit.Features,
    weights: np.ndarray,
    sizes: dict[str, int],
    options: dict,
    *,
    trips: int,
    steps: int = 5000,
) -> Draw:
    """A set in this world (transitions, available, initial), so many of each kind forbidden."""
    table, there, initial = model
    mdp = tacit.MDP(table, initial, 1.0, available=there)
    groups = list(options.get("groups", {}).items())
    listed = candidates_of(mdp, features, options["candidates"], groups)
    kinds = {kind: [k for k, one in enumerate(listed) if one.kind == kind] for kind in sizes}
    starts = np.flatnonzero(initial)
    while True:
        truth = [
            int(k)
            for kind, size in sizes.items()
            for k in rng.choice(kinds[kind], min(size, len(kinds[kind])), replace=False)
        ]
        closure = close(mdp, [[listed[k] for k in truth]])
        if not closure.dead[starts, 0].any() and not closure.dead[-1, 0]:
            break
    left = replace(mdp, available=there & ~closure.removed.reshape(there.shape))
    alone = features.reward_alone
    policy = tacit.SoftDual(1.0).solve(left, alone.objective(weights)).policy
    seed = int(rng.integers(2**31))
    seen = tacit.simulate(left, policy, trajectories=trips, steps=steps, seed=seed)
    visited = set(seen.states.tolist())
    names = {listed[k].name for k in truth}
    held = {name: cells for name, cells in groups if name in names or not visited & set(cells)}
    return Draw(mdp, features, weights, seen, names, options | {"groups": held})


def open_grid(seed: int) -> Draw:
    """10 x 8, four moves, six forbidden cells, 50 trips: the grids on which names went wrong."""
    rng, model = np.random.default_rng(seed), lattice((10, 8), 4)
    features = tacit.Features(1.0 - np.eye(80)[:, [79]], reward_names=["step"])
    options = {"candidates": ("states",)}
    weights = np.array([-2.0])
    return drawn(rng, (*model, np.eye(80)[0]), features, weights, {"state": 6}, options, trips=50)


def terrain(seed: int) -> Draw:
    """8 x 8, eight moves, two kinds of ground, three starts; 3 to 8 cells and 0 or 1 action."""
    rng, model = np.random.default_rng(seed), lattice((8, 8), 8)
    rough = (rng.random(64) < 0.3).astype(float)
    table = np.stack([1.0 - np.eye(64)[63], rough * (1.0 - np.eye(64)[63])], axis=1)
    features = tacit.Features(table, reward_names=["step", "rough"])
    weights = -np.array([rng.uniform(2.3, 4.0), rng.uniform(0.5, 2.0)])
    sizes = {"state": int(rng.integers(3, 9)), "action": int(rng.integers(0, 2))}
    initial = np.bincount([0, 4, 24], np.ones(3) / 3, minlength=64)
    options = {"candidates": ("states", "actions")}
    trips = int(rng.choice([5, 20, 60]))
    return drawn(rng, (*model, initial), features, weights, sizes, options, trips=trips)


def rooms(seed: int) -> Draw:
    """9 x 11 with two known walls of two doors each; cells, colours and named groups forbidden."""
    rng = np.random.default_rng(seed)
    walls = {
        11 * row + column
        for column in (3, 7)
        for row in set(range(9)) - set(rng.choice(9, 2, replace=False).tolist())
    }
    model = lattice((9, 11), 4, walls=walls)
    free = rng.permutation(sorted(set(range(1, 98)) - walls))
    colours = np.zeros((99, 4))
    for j in range(4):
        colours[free[3 * j : 3 * j + 3], j] = 1.0
    groups = {f"group {g}": sorted(free[12 + 4 * g : 16 + 4 * g].tolist()) for g in range(3)}
    names = [[f"colour {j}" for j in range(4)]]
    step = 1.0 - np.eye(99)[:, [98]]
    features = tacit.Features(step, [colours], ["step"], names)
    sizes = {
        "state": int(rng.integers(2, 7)),
        "feature": int(rng.integers(0, 2)),
        "group": int(rng.integers(0, 2)),
    }
    options = {"candidates": ("states", "features"), "groups": groups}
    trips = int(rng.choice([10, 30, 100]))
    weights = np.array([-rng.uniform(1.5, 3.0)])
    return drawn(rng, (*model, np.eye(99)[0]), features, weights, sizes, options, trips=trips)


def slippery(seed: int) -> Draw:
    """7 x 7, moves that slip sideways with .2, four forbidden cells; every third set is cut off."""
    rng = np.random.default_rng(seed)
    features = tacit.Features(1.0 - np.eye(49)[:, [48]], reward_names=["step"])
    options = {"candidates": ("states",)}
    return drawn(
        rng,
        (*lattice((7, 7), 4, slip=0.2), np.eye(49)[0]),
        features,
        np.array([-2.0]),
        {"state": 4},
        options,
        trips=40,
        steps=12 if seed % 3 == 0 else 5000,
    )


def unknown_reward(seed: int) -> Draw:
    """As `open_grid`, with marks on 30 % of the cells; neither weight is known."""
    rng, model = np.random.default_rng(seed), lattice((10, 8), 4)
    marks = (rng.random(80) < 0.3) * (1.0 - np.eye(80)[79])
    features = tacit.Features(np.stack([1.0 - np.eye(80)[79], marks], axis=1))
    options, weights = {"candidates": ("states",), "reward": None}, np.array([-2.0, -1.0])
    return drawn(rng, (*model, np.eye(80)[0]), features, weights, {"state": 6}, options, trips=50)


def wrong_reward(seed: int) -> Draw:
    """The same, told that marks count for nothing."""
    draw = unknown_reward(seed)
    return replace(draw, options=draw.options | {"reward": np.array([-2.0, 0.0])})


KINDS_OF_SETS = {
    "open 10 x 8": open_grid,
    "terrain 8 x 8": terrain,
    "rooms 9 x 11": rooms,
    "moves that slip": slippery,
    "reward estimated": unknown_reward,
    "reward told wrong": wrong_reward,
}
FRESH = ("open 10 x 8", "terrain 8 x 8", "rooms 9 x 11")


def judged(draw: Draw) -> dict[str, float]:
    """What is named in one set: how much of it is false, and how much of the truth is found."""
    options = {"reward": draw.weights} | draw.options
    if options["reward"] is not None:
        options["temperature"] = 1.0
    begin = time.process_time()
    found = tacit.Forbidden(**options).fit(draw.mdp, draw.features, draw.seen, throw=False)
    seconds = time.process_time() - begin
    known = tacit.Forbidden(**(options | {"reward": draw.weights, "temperature": 1.0}))
    search = known.selection(draw.mdp, draw.features, draw.seen)
    listed = search.candidates
    truth = [k for k, one in enumerate(listed) if one.name in draw.truth]
    closure = close(draw.mdp, [[listed[k] for k in truth]])
    wider = close(draw.mdp, [[*(listed[k] for k in truth), one] for one in listed])
    fine = {one.name for one, same in zip(listed, wider.within(closure), strict=True) if same}
    names = {one.name for one in found.forbidden}
    true = draw.truth
    gains = [-search.log_chance(k, [other for other in truth if other != k]) for k in truth]
    told = {listed[k].name for k, gain in zip(truth, gains, strict=True) if gain > TELLABLE}
    alone = close(draw.mdp, [[one] for one in listed])
    inside = {
        listed[k].name: {
            one.name for one, part in zip(listed, alone.within(alone.one(k)), strict=True) if part
        }
        for k in truth
    }
    pairs = {frozenset((one.name, one.rival)) for one in found.undecided if one.rival}
    strict = {one.name for one in found.forbidden if one.strict}
    simplest = {one.name for one in found.simplest}
    return {
        "names": len(names),
        "false": len(names - fine),
        "strict": len(strict),
        "false_strict": len(strict - fine),
        "pairs": len(pairs),
        "false_pairs": sum(not pair & fine for pair in pairs),
        "forbidden": len(true),
        "found": len(names & true),
        "tellable": len(told),
        "tellable_found": len(names & told),
        "tellable_found_in_part": sum(bool(inside[name] & names) for name in told),
        "simplest": len(simplest),
        "simplest_false": len(simplest - fine),
        "simplest_found": len(simplest & true),
        "apart": any(f.kind is tacit.Kind.NOT_CONVERGED for f in found.identification.findings),
        "misfit": not found.goodness.adequate,
        "seconds": seconds,
    }


def summed(rows: list[dict[str, float]]) -> dict[str, object]:
    """Shares of sets with something false, with their standard errors, and recalls."""
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    found: dict[str, object] = {"sets": len(rows)}
    for name in ("false", "false_strict", "false_pairs", "simplest_false"):
        count = sum(row[name] > 0 for row in rows)
        rate = count / len(rows)
        found[f"sets_with_{name}"] = {
            "share": rate,
            "standard_error": float(np.sqrt(rate * (1.0 - rate) / len(rows))),
        }
    found["recall"] = total["found"] / total["forbidden"]
    found["recall_of_what_can_be_told"] = total["tellable_found"] / max(total["tellable"], 1)
    some = total["tellable_found_in_part"] / max(total["tellable"], 1)
    found["recall_of_what_can_be_told_in_part"] = some
    found["recall_of_the_simplest"] = total["simplest_found"] / total["forbidden"]
    found["seconds_a_set"] = total["seconds"] / len(rows)
    kept = ("names", "strict", "pairs", "false", "false_pairs", "apart", "misfit")
    return found | {name: int(total[name]) for name in kept}


def published(folder: Path) -> dict[str, object]:
    """Wrong/found and recall on the ten sets of Scobee and Sastry, by number of demonstrations."""
    text = (folder / "scobee" / "scobee_example_trajectories.json").read_text()
    sets, mdp, features = json.loads(text)[0]["trajs"], grid(9, 8), walking(81, 8)
    estimator = tacit.Forbidden([-4.0, 10.0], 1.0, candidates=KINDS, groups=COLOURS)
    rows = {}
    for n in (1, 5, 10, 20, 100):
        found: dict[str, list[tuple[float, float]]] = {"names": [], "simplest": []}
        for one in sets:
            trips = list(zip(one["state_seq"][:n], one["action_seq"][:n], strict=True))
            seen = tacit.Demonstrations.from_trajectories(trips, ended=[True] * n)
            recovery = estimator.fit(mdp, features, seen, throw=False)
            answers = {"names": recovery.forbidden, "simplest": recovery.simplest}
            for way, answer in answers.items():
                # A cell of a forbidden colour is forbidden, too.
                names = {record.name for record in answer}
                right = TRUE | {f"state {s}" for cells in COLOURS.values() for s in cells}
                wrong = len(names - right) / max(len(names), 1)
                found[way].append((wrong, len(names & TRUE) / len(TRUE)))
        rows[str(n)] = {
            way: {
                "wrong_of_found": float(np.mean([wrong for wrong, _ in each])),
                "sets_with_a_wrong_one": sum(wrong > 0 for wrong, _ in each),
                "recall": float(np.mean([recall for _, recall in each])),
            }
            for way, each in found.items()
        }
    return rows


def dearer_diagonals(folder: Path) -> dict[str, object]:
    """What is said of each set of 100 where a diagonal step is made to cost 5.657, not 4."""
    text = (folder / "scobee" / "scobee_example_trajectories.json").read_text()
    mdp, step = grid(9, 8), np.zeros((81, 8, 2))
    step[:, :, 0] = np.where(np.arange(8) < 4, 1.0, 5.657 / 4.0)
    step[8, :, 0], step[8, :, 1] = 0.0, 1.0
    estimator = tacit.Forbidden([-4.0, 10.0], 1.0, candidates=KINDS, groups=COLOURS)
    found = []
    for one in json.loads(text)[0]["trajs"]:
        trips = list(zip(one["state_seq"], one["action_seq"], strict=True))
        seen = tacit.Demonstrations.from_trajectories(trips, ended=[True] * len(trips))
        found.append(estimator.fit(mdp, tacit.Features(step), seen))
    said = [recovery.identification.findings[0].kind.name for recovery in found]
    return {
        "sets": len(found),
        "misfit_said_first": said.count("MISFIT"),
        "largest_p_value_of_the_fit": max(recovery.goodness.p_value for recovery in found),
        "state_50_called_forbidden": sum(
            "state 50" in {one.name for one in recovery.forbidden} for recovery in found
        ),
    }


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=400, help="fresh sets of the three kinds")
    parser.add_argument("--slipping", type=int, default=40, help="sets where moves slip")
    parser.add_argument("--unknown", type=int, default=60, help="sets of unknown, of wrong reward")
    parser.add_argument("--first", type=int, default=1100000, help="seed of the first of each kind")
    parser.add_argument("--diagonals", action="store_true", help="the wrong step costs alone")
    given, folder = parser.parse_args(), os.environ.get("TACIT_DATA")
    if given.diagonals and folder:
        kept = json.loads(RESULTS.read_text())
        kept["diagonals_of_5.657"] = dearer_diagonals(Path(folder)) | about(PACKAGES)
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
        return
    result: dict[str, object] = {}
    begin, counts = time.process_time(), dict.fromkeys(FRESH, given.draws // 3)
    counts[FRESH[0]] += given.draws % 3
    counts |= {"moves that slip": given.slipping, "reward estimated": given.unknown}
    counts |= {"reward told wrong": given.unknown}
    rows = {}
    for kind, count in counts.items():
        seeds = range(given.first, given.first + count)
        rows[kind] = [judged(KINDS_OF_SETS[kind](seed)) for seed in seeds]
        result[kind] = summed(rows[kind]) if count else {}
        print(kind, json.dumps(result[kind]), flush=True)
    if every := [row for kind in FRESH for row in rows[kind]]:
        result["all of the first three"] = summed(every)
        result["verdicts"] = {}
        for name in ("false", "false_strict", "false_pairs", "simplest_false"):
            wrong = {kind: np.array([row[name] > 0 for row in rows[kind]]) for kind in FRESH}
            verdict = size_verdict(
                [r for kind, each in wrong.items() for r in rates_of(kind, each)]
            )
            print(f"{name}: {verdict}", flush=True)
            result["verdicts"] |= {name: asdict(verdict)}
    result["processor_seconds_of_fresh"] = time.process_time() - begin
    for name, part in (
        ("published", published),
        ("diagonals_of_5.657", dearer_diagonals),
        ("their_method", lambda _: likeliest()),
    ):
        # Each is kept as soon as it is there.
        RESULTS.write_text(json.dumps(about(PACKAGES) | result, indent=2) + "\n")
        result[name] = part(Path(folder)) if folder else "TACIT_DATA is not set"
    RESULTS.write_text(json.dumps(about(PACKAGES) | result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
