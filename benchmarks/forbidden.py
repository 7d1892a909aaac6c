"""What `Forbidden` finds where the truth is known: false findings, and recall of what can be told.

    python benchmarks/forbidden.py --first 300000
    python benchmarks/forbidden.py --diagonals     # what wrong step costs do, beside what is there
    python benchmarks/forbidden.py --draws 12      # a quick look; writes as well

The rules about rivals were settled on random grids of seeds below 220, on seeds from 100000 to
100500 and on those from 200000 to 200224: `--first` takes others. Fresh sets, 1, 5, 20 or 60
demonstrations each, reward and noise known. Half are random 6 x 6 grids of eight moves that end in
a corner, two to four states and up to two moves forbidden, a random step cost; a quarter is the 9 x
9 grid of Scobee and Sastry, a quarter the same with other constraints. A finding is false where
forbidding it takes more away than the truth does. Where it has a rival one of the two is claimed,
one being named: "neither it nor its rival" counts the claims that are false, and "false without a
rival" what is false of the findings that no rival contests. The data can tell what is tested at the
level in the world that lacks all the rest of the truth, unless a part of it that is a candidate,
too, explains all; "in part" counts these as well, told where they or a part of them are found. Sets
with a false name are judged against 5 % by the rule of rates.py.
Published sets: the ten of Scobee and Sastry (2020), where TACIT_DATA names the folder that holds
`scobee/`, by `Forbidden` and by their own method; and what is said where diagonal steps are made to
cost 5.657 instead of 4. Writes benchmarks/results/forbidden.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import tacit
from families import likeliest
from provenance import about
from rates import rates_of, size_verdict
from tacit.inverse.candidates import candidates_of
from tacit.model.ends import close

RESULTS = Path(__file__).parent / "results" / "forbidden.json"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax")
MOVES = [(0, -1), (0, 1), (1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1)]
SIZES = (1, 5, 20, 60)
KINDS = ("states", "actions")
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


def random_grid(seed: int) -> tuple[tacit.MDP, tacit.Features, np.ndarray, set[str], dict]:
    """A 6 x 6 grid with a random step cost: world, features, weights, what is forbidden, groups."""
    rng, mdp, features = np.random.default_rng(seed), grid(6, 35), walking(36, 35)
    weights = np.array([-rng.uniform(2.2, 4.0), 3.0])
    while True:
        states = rng.choice(np.arange(1, 35), rng.integers(2, 5), replace=False).tolist()
        actions = rng.choice(8, rng.integers(0, 3), replace=False).tolist()
        names = {f"state {s}" for s in states} | {f"action {a}" for a in actions}
        found = [one for one in candidates_of(mdp, features, KINDS, []) if one.name in names]
        if not close(mdp, [found]).dead[0, 0]:
            return mdp, features, weights, names, {}


def nine_by_nine(seed: int) -> tuple[tacit.MDP, tacit.Features, np.ndarray, set[str], dict]:
    """The grid of Scobee and Sastry with their constraints, or with as many others."""
    world = tacit.worlds.nine_by_nine(None if seed % 4 == 1 else seed)
    names, tables = world.features.cost_names[0], world.features.costs[0]
    true = {name for name, weight in zip(names, world.cost_weights[0], strict=True) if weight}
    groups = {
        name: np.flatnonzero(tables[:, :, names.index(name)].any(axis=1)).tolist()
        for name in COLOURS
    }
    return world.mdp, walking(81, 8), world.reward_weights, true, groups


def fresh(seed: int, episodes: int) -> dict[str, int]:
    """One set: findings, false ones, and how much of what can be told was found."""
    source = nine_by_nine if seed % 2 else random_grid
    mdp, features, weights, true, groups = source(seed)
    listed = candidates_of(mdp, features, KINDS, [(n, tuple(g)) for n, g in groups.items()])
    truth = [k for k, one in enumerate(listed) if one.name in true]
    closure = close(mdp, [[listed[k] for k in truth]])
    objective, solver = features.objective(weights), tacit.SoftDual(1.0)
    there = mdp.available & ~closure.removed.reshape(mdp.available.shape)
    policy = solver.solve(replace(mdp, available=there), objective).policy
    seen = tacit.simulate(mdp, policy, trajectories=episodes, steps=2000, seed=seed)
    estimator = tacit.Forbidden(weights, 1.0, candidates=KINDS, groups=groups)
    recovery = estimator.fit(mdp, features, seen)
    wider = close(mdp, [[*(listed[k] for k in truth), one] for one in listed])
    fine = {one.name for one, same in zip(listed, wider.within(closure), strict=True) if same}
    found = {one.name: one.rival for one in recovery.forbidden}
    told = tacit.judge.decidable(estimator, mdp, features, seen, true)
    some = tacit.judge.decidable(estimator, mdp, features, seen, true, parts=True)
    # A name, and those of what forbidding it takes away as well.
    alone, names = close(mdp, [[one] for one in listed]), [one.name for one in listed]
    within = {n: set(np.array(names)[alone.within(alone.one(k))]) for k, n in enumerate(names)}
    return {
        "found": len(found),
        "with_a_rival": sum(map(bool, found.values())),
        "false": sum(name not in fine for name in found),
        "false_without_a_rival": sum(n not in fine and not rival for n, rival in found.items()),
        "neither_it_nor_its_rival": sum(not {n, rival} & fine for n, rival in found.items()),
        "can_be_told": len(told),
        "told": len(found.keys() & told),
        "can_be_told_in_part": len(some),
        "told_in_part": sum(bool(within[name] & found.keys()) for name in some),
    }


def published(folder: Path) -> dict[str, dict[str, float]]:
    """Wrong/found and recall on the ten sets of Scobee and Sastry, by number of demonstrations."""
    text = (folder / "scobee" / "scobee_example_trajectories.json").read_text()
    sets, mdp, features = json.loads(text)[0]["trajs"], grid(9, 8), walking(81, 8)
    estimator = tacit.Forbidden([-4.0, 10.0], 1.0, candidates=KINDS, groups=COLOURS)
    rows = {}
    for n in (1, 5, 10, 20, 100):
        wrong, recall, still_open = [], [], set(TRUE)
        for one in sets:
            trips = list(zip(one["state_seq"][:n], one["action_seq"][:n], strict=True))
            seen = tacit.Demonstrations.from_trajectories(trips, ended=[True] * n)
            recovery = estimator.fit(mdp, features, seen)
            names = {found.name for found in recovery.forbidden}
            wrong.append(len(names - TRUE) / max(len(names), 1))
            recall.append(len(names & TRUE) / len(TRUE))
            still_open &= {found.name for found in recovery.undecided}
        rows[str(n)] = {
            "wrong_of_found": float(np.mean(wrong)),
            "sets_with_a_wrong_one": int(np.count_nonzero(wrong)),
            "recall": float(np.mean(recall)),
            "undecided_in_all": sorted(still_open),
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


def share(count: int, sets: int) -> dict[str, float]:
    """A share of the sets, and its standard error."""
    rate = count / sets
    return {"share": rate, "standard_error": float(np.sqrt(rate * (1.0 - rate) / sets))}


def verdicts(rows: list[dict[str, int]]) -> dict[str, dict[str, object]]:
    """Sets with a false name, or with a false claim, against 5 %, by world and demonstrations."""
    cells: dict[str, list[dict[str, int]]] = {}
    for k, row in enumerate(rows):
        world = ("6 x 6", "9 x 9, published", "6 x 6", "9 x 9, others")[k % 4]
        cells.setdefault(f"{world}, {SIZES[k // 4 % len(SIZES)]}", []).append(row)
    found = {}
    for name in ("false", "neither_it_nor_its_rival"):
        wrong = {cell: np.array([row[name] > 0 for row in own]) for cell, own in cells.items()}
        rates = [rate for cell, each in wrong.items() for rate in rates_of(cell, each)]
        verdict = size_verdict(rates)
        print(f"{name}: {verdict}")
        found[name] = asdict(verdict)
    return found


def strata(rows: list[dict[str, int]]) -> dict[str, dict[str, object]]:
    """False findings and recall of all sets, by world, and by number of demonstrations."""
    sizes = [SIZES[k // 4 % len(SIZES)] for k in range(len(rows))]
    parts = [("all", rows), ("random 6 x 6", rows[::2])]
    parts += [("9 x 9, published constraints", rows[1::4]), ("9 x 9, others", rows[3::4])]
    parts += [
        (str(n), [row for row, size in zip(rows, sizes, strict=True) if size == n]) for n in SIZES
    ]
    kinds = {
        "sets_with_a_false_one": "false",
        "sets_with_a_false_one_without_a_rival": "false_without_a_rival",
        "sets_with_a_false_claim": "neither_it_nor_its_rival",
    }
    found: dict[str, dict[str, object]] = {}
    for label, chosen in parts:
        if not chosen:
            continue
        sums = {name: sum(row[name] for row in chosen) for name in rows[0]}
        shares = {
            name: share(sum(row[of] > 0 for row in chosen), len(chosen))
            for name, of in kinds.items()
        }
        found[label] = {"sets": len(chosen), **sums, **shares}
        found[label]["recall_of_what_can_be_told"] = sums["told"] / max(sums["can_be_told"], 1)
        some = sums["told_in_part"] / max(sums["can_be_told_in_part"], 1)
        found[label]["recall_in_part"] = some
    return found


def main() -> None:
    """Runs all draws and writes the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=500, help="fresh sets in all")
    parser.add_argument("--seconds", type=float, default=np.inf, help="of the processor, for these")
    parser.add_argument("--first", type=int, default=0, help="seed of the first, a multiple of 4")
    parser.add_argument("--diagonals", action="store_true", help="the wrong step costs alone")
    given, folder = parser.parse_args(), os.environ.get("TACIT_DATA")
    if given.diagonals and folder:
        kept = json.loads(RESULTS.read_text())
        kept["diagonals_of_5.657"] = dearer_diagonals(Path(folder)) | about(PACKAGES)
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
        return
    result: dict[str, object] = {}
    rows, begin = [], time.process_time()
    for k in range(given.draws):
        # Every kind of set and number of demonstrations as often as every other.
        if k % 16 == 0 and time.process_time() - begin > given.seconds:
            break
        rows.append(fresh(given.first + k, SIZES[k // 4 % len(SIZES)]))
    result["fresh"], result["verdicts"] = strata(rows), verdicts(rows)
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
