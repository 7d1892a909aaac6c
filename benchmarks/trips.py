"""Trips to many goals on one network, beside a plain nested fixed point in SciPy, same run.

    python benchmarks/trips.py

A made network of about 7 000 links and 20 000 turns; 2 000 trips of a noisy traveller to 450 goals
whose four coefficients are known; moves are certain and nothing is discounted. The peer is what one
would write first: SciPy's BFGS with the analytic gradient; every evaluation makes one sparse LU of
I - M and solves it for all goals, and once more, transposed, for the gradient. It begins where
tacit's own search does, and gives no standard errors. Writes benchmarks/results/trips.json.

    python benchmarks/trips.py --coverage 50

How often the intervals of all coefficients hold, over so many smaller networks with several sets of
trips each, and how often trips of one traveller are wrongly told not to fit. Goes into the same
file, beside what is there.

    python benchmarks/trips.py --package FOLDER --package-python PYTHON

Beside the package RecursiveRouteChoice (github.com/m-richards/RecursiveRouteChoice, not on the
package index), given as a folder with its source and a Python that has what it imports: the same
60 trips on a small network. Goes into the same file.

    python benchmarks/trips.py --random 20 50

Where moves are random: grids of so many fields a side, 50 goals each, one recovery with the goals
as columns of one table and one goal by goal. Goes into the same file.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.linalg import splu

import tacit
from provenance import about
from rates import coverage_verdict, rates_of, size_verdict

TRUTH = np.array([-1.6, -0.9, -1.2, -0.7])
NAMES = ("length", "slope", "turn", "crossing")


@dataclass(frozen=True)
class Args:
    """Benchmark of trips to many goals."""

    side: int = 42
    """Crossings on a side; a link leads either way between neighbours."""
    kept: float = 0.97
    """Share of the streets that there are."""
    trips: int = 2000
    goals: int = 450
    seed: int = 0
    peer: bool = True
    """Whether the peer runs, which takes longer."""
    coverage: int = 0
    """Smaller networks over which intervals are tried, instead of all else; 0 for none."""
    sets: int = 5
    """Sets of trips on each of them."""
    package: Path | None = None
    """Folder with the source of RecursiveRouteChoice, to run beside it, instead of all else."""
    package_python: str = "python"
    """Python that runs it."""
    random: tuple[int, ...] = ()
    """Sides of grids on which moves are random, instead of all else."""
    out: Path = Path(__file__).parent / "results" / "trips.json"


@dataclass(frozen=True)
class Town:
    """A network: links as states, turns as pairs of links."""

    mdp: tacit.MDP
    features: tacit.Features
    turns: np.ndarray  # [E, 3] link, action, next link


def town(args: Args) -> Town:
    """A grid of streets with holes and lengths of its own; no turn goes straight back."""
    rng, side = np.random.default_rng(args.seed), args.side
    places = np.arange(side * side).reshape(side, side)
    across = np.stack([places[:, :-1].ravel(), places[:, 1:].ravel()], axis=1)
    down = np.stack([places[:-1].ravel(), places[1:].ravel()], axis=1)
    streets = np.concatenate([across, down])
    streets = streets[rng.random(len(streets)) < args.kept]
    links = np.concatenate([streets, streets[:, ::-1]])
    tails, heads = links.T
    order = np.argsort(tails, kind="stable")
    first = np.searchsorted(tails[order], np.arange(side * side + 1))
    turns = []
    for link, head in enumerate(heads.tolist()):
        onward = order[first[head] : first[head + 1]]
        onward = onward[heads[onward] != tails[link]]
        turns += [(link, action, int(there)) for action, there in enumerate(onward)]
    found = np.array(turns)
    actions = int(found[:, 1].max()) + 1
    states, chances = np.zeros((2, len(links), actions, 1))
    states[found[:, 0], found[:, 1], 0] = found[:, 2]
    chances[found[:, 0], found[:, 1], 0] = 1.0
    way = np.stack([heads % side - tails % side, heads // side - tails // side], axis=1)
    table = np.zeros((len(links), actions, 4))
    table[..., 0] = (1.0 + 0.5 * rng.random(len(links)))[:, None]
    table[..., 1] = (rng.random(len(links)) ** 2)[:, None]
    bends = way[found[:, 0], 0] * way[found[:, 2], 0] + way[found[:, 0], 1] * way[found[:, 2], 1]
    table[found[:, 0], found[:, 1], 2] = bends == 0
    table[..., 3] = (rng.random(side * side) < 0.3)[heads][:, None]
    start = np.full(len(links), 1 / len(links))
    available = chances[..., 0] > 0
    mdp = tacit.MDP(
        tacit.Successors(states.astype(np.int32), chances), start, 0.9, available=available
    )
    return Town(mdp, tacit.Features(table, reward_names=NAMES), found)


def matrix(town: Town, theta: np.ndarray) -> csr_array:
    """M, the exponentials of what each turn is worth."""
    worth = town.features.reward[town.turns[:, 0], town.turns[:, 1]] @ theta
    size = town.mdp.states
    return csr_array((np.exp(worth), (town.turns[:, 0], town.turns[:, 2])), shape=(size, size))


def journeys(town: Town, args: Args) -> tacit.Demonstrations:
    """Trips of the traveller, each goal's policy from one column of the inverse of I - M."""
    rng, size = np.random.default_rng(args.seed + 1), town.mdp.states
    ways = matrix(town, TRUTH)
    factors = splu((eye_array(size) - ways).tocsc())
    goals = rng.choice(size, args.goals, replace=False)
    wanted = np.concatenate([goals, rng.choice(goals, args.trips - args.goals)])
    trips = []
    for goal in goals.tolist():
        z = factors.solve(np.eye(1, size, goal)[0])
        z = z / z[goal]
        if (z > 0).sum() < 2:  # a link that nothing leads to
            continue
        for _ in range(int((wanted == goal).sum())):
            at = int(rng.integers(size))
            while at == goal or not z[at] > 0:
                at = int(rng.integers(size))
            states, actions = [at], []
            while at != goal:
                row = slice(ways.indptr[at], ways.indptr[at + 1])
                there = ways.indices[row]
                chances = ways.data[row] * z[there]
                at_next = int(there[rng.choice(len(there), p=chances / chances.sum())])
                moves = town.mdp.transitions
                taken = (moves.states[at, :, 0] == at_next) & (moves.probabilities[at, :, 0] > 0)
                actions.append(int(taken.argmax()))
                at = at_next
                states.append(at)
            trips.append((states, actions))
    return tacit.Demonstrations.from_trajectories(trips, ended=np.ones(len(trips), bool))


class Peer:
    """The nested fixed point of the textbooks, in SciPy."""

    def __init__(self, town: Town, seen: tacit.Demonstrations) -> None:
        self.links, self.features = town.turns, town.features.reward
        self.gains = self.features[town.turns[:, 0], town.turns[:, 1]]
        self.size, self.town, self.evaluations = town.mdp.states, town, 0
        self.origins = seen.states[seen.offsets[:-1]]
        self.goals, self.own = np.unique(seen.final_states, return_inverse=True)
        self.target = self.features[seen.states, seen.actions].sum(axis=0)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log-likelihood and its gradient."""
        self.evaluations += 1
        every = np.arange(len(self.goals))
        ways = matrix(self.town, theta)
        factors = splu((eye_array(self.size) - ways).tocsc())
        units = coo_array((np.ones(len(every)), (self.goals, every)), (self.size, len(every)))
        z = factors.solve(units.toarray())
        z = z / z[self.goals, every]
        if not (z[self.origins, self.own] > 0).all() or not (z >= 0).all():
            return np.inf, np.zeros(len(theta))
        likely = z[self.origins, self.own]
        weights = np.zeros(z.shape)
        np.add.at(weights, (self.origins, self.own), 1.0 / likely)
        arrived = np.bincount(self.own, minlength=len(every))
        weights[self.goals, every] -= arrived
        y = factors.solve(weights, trans="T")
        y[self.goals, every] = 0.0
        worth = np.exp(self.gains @ theta)
        flow = worth * (y[self.links[:, 0]] * z[self.links[:, 2]]).sum(axis=1)
        loss = float(np.log(likely).sum() - theta @ self.target)
        return loss, flow @ self.gains - self.target


def begun(trips: tacit.Trips) -> np.ndarray:
    """[D] where tacit's own search begins: the first weights of finite values that it tries."""
    chain = trips.chain(tacit.Likelihood(free_reward=True))  # what `recover` maximises
    some = replace(chain, chosen=chain.chosen[:32])
    for size in 0.25 * 2.0 ** np.arange(8):
        x = size * -np.ones(chain.space.size)
        if np.isfinite(some.sums(x).loss):
            return x / chain.space.scales
    raise SystemExit("no start of finite values")


def coefficients(trips: tacit.Trips) -> np.ndarray:
    """[D] the coefficients alone, as the peer gives them: no errors, tests or goodness."""
    from tacit.likelihood.start import maximum

    options = tacit.Likelihood(free_reward=True)
    chain = trips.chain(options)
    return maximum(chain, options).z / chain.space.scales


def coverage(args: Args) -> dict[str, Any]:
    """How often intervals hold, and the tests of the fit, over smaller networks."""
    held: dict[str, list[np.ndarray]] = {"fisher": [], "clustered": []}
    misfits, start = [], time.perf_counter()
    for number in range(args.coverage):
        small = replace(args, side=10, trips=200, goals=30, seed=1000 + number)
        made = town(small)
        for one in range(args.sets):
            seen = journeys(made, replace(small, seed=100_000 + number * args.sets + one))
            found = tacit.recover(tacit.Trips(made.mdp, made.features, seen, discount=1.0))
            for kind, rows in held.items():
                low, high = found.parameters.with_errors(kind).intervals.T
                rows.append((low <= TRUTH) & (high >= TRUTH))
            misfits.append(not found.goodness.adequate)
    verdicts = {
        kind: coverage_verdict(rates_of(kind, np.array(rows), NAMES)) for kind, rows in held.items()
    }
    verdicts["misfit"] = size_verdict(rates_of("misfit", np.array(misfits)))
    for kind, verdict in verdicts.items():
        print(f"{kind}: {verdict}")
    shares = {kind: np.mean(rows, axis=0) for kind, rows in held.items()}
    return {
        "networks": args.coverage,
        "sets_of_trips_each": args.sets,
        "links_of_the_last": made.mdp.states,
        "trips_each": 200,
        "goals_each": 30,
        "coverage": {kind: float(share.mean()) for kind, share in shares.items()},
        "coverage_by_coefficient": {kind: share.tolist() for kind, share in shares.items()},
        "verdicts": {kind: asdict(verdict) for kind, verdict in verdicts.items()},
        "wrongly_told_not_to_fit": float(np.mean(misfits)),
        "seconds": time.perf_counter() - start,
        "target": "95 % by the rule of rates.py",
    }


# What the package is asked in its own process: its way of a first estimation, timed by itself.
ASKED = """
import sys, time
import numpy as np
from recursiveRouteChoice import ModelDataStruct, RecursiveLogitModelEstimation, optimisers
from recursiveRouteChoice import recursive_route_choice
recursive_route_choice.ALLOW_POSITIVE_VALUE_FUNCTIONS = False  # trips end at their goal, as ours
given = np.load(sys.argv[1])
paths = [row[:n].tolist() for row, n in zip(given["paths"], given["lengths"])]
start = time.process_time()
data = ModelDataStruct(list(given["attributes"]), given["incidence"])
model = RecursiveLogitModelEstimation(
    data, observations_record=paths, initial_beta=given["begun"].tolist(), mu=1,
    optimiser=optimisers.ScipyOptimiser(method="bfgs"),
)
found = model.solve_for_optimal_beta(verbose=False)
np.savez(sys.argv[2], found=found, seconds=time.process_time() - start,
         loss=model.get_log_likelihood()[0])
"""


def beside_package(args: Args) -> dict[str, Any]:
    """The same small network in both packages: coefficients, log-likelihoods and CPU seconds."""
    assert args.package is not None
    small = replace(args, side=6, trips=60, goals=10, seed=7)
    made = town(small)
    seen = journeys(made, small)
    trips = tacit.Trips(made.mdp, made.features, seen, discount=1.0)
    tacit.recover(trips)  # compiled before it is timed
    start = time.process_time()
    own = tacit.recover(trips)
    seconds = time.process_time() - start
    # It takes the smallest link that it sees for the first: let that be one that it sees.
    size, first = made.mdp.states, int(seen.states[0])
    number = np.arange(size)
    number[[0, first]] = first, 0
    tail, head = number[made.turns[:, 0]], number[made.turns[:, 2]]
    incidence, attributes = np.zeros((size, size)), np.zeros((4, size, size))
    incidence[tail, head] = 1.0
    attributes[:, tail, head] = made.features.reward[made.turns[:, 0], made.turns[:, 1]].T
    paths = []
    for e, goal in enumerate(number[seen.final_states].tolist()):
        paths.append([goal, *number[seen.trajectory(e)[0]].tolist(), goal])
    padded = np.zeros((len(paths), max(map(len, paths))), int)
    for row, path in zip(padded, paths, strict=True):
        row[: len(path)] = path
    told: dict[str, Any] = {"links": size, "trips": len(paths), "cpu_seconds": seconds}
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "asked.npz", Path(folder) / "answer.npz"
        np.savez(
            asked,
            incidence=incidence,
            attributes=attributes,
            paths=padded,
            lengths=[len(path) for path in paths],
            begun=begun(trips),
        )
        done = subprocess.run(
            # Without assertions: one of them, where trips end at their goal, is mistyped.
            [args.package_python, "-O", "-c", ASKED, str(asked), str(answer)],
            env=os.environ | {"PYTHONPATH": str(args.package.resolve() / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return told | {"package_failed": done.stderr.strip().splitlines()[-1][:300]}
        with np.load(answer) as found:
            theirs, other, loss = found["found"], float(found["seconds"]), float(found["loss"])
    return told | {
        "estimates": own.parameters.estimates.tolist(),
        "log_likelihood": own.log_likelihood,
        "package_cpu_seconds": other,
        "package_estimates": theirs.tolist(),
        "package_log_likelihood": -loss,
        "largest_difference": float(np.abs(theirs - own.parameters.estimates).max()),
        "ratio": other / seconds,
        "note": "the package gives no standard errors, tests or goodness of fit; ours does",
    }


def slippery(side: int, goals: int, each: int, seed: int) -> tacit.Trips:
    """Trips on a grid where a step goes to either side with chance 0.1, at discount 1."""
    rng, size = np.random.default_rng(seed), side * side
    places = np.stack(np.divmod(np.arange(size), side), axis=1)
    ahead = places[:, None] + np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
    inside = ((ahead >= 0) & (ahead < side)).all(axis=2)
    ahead = np.where(inside[..., None], ahead, places[:, None])
    reached = ahead[..., 0] * side + ahead[..., 1]
    states = np.stack([reached, np.roll(reached, 1, axis=1), np.roll(reached, -1, axis=1)], axis=2)
    chances = np.broadcast_to([0.8, 0.1, 0.1], states.shape)
    moves = tacit.Successors(states.astype(np.int32), chances)
    mdp = tacit.MDP(moves, np.full(size, 1 / size), 0.9, available=inside)
    table = np.concatenate([np.ones((size, 4, 1)), rng.random((size, 4, 2))], axis=2)
    features = tacit.Features(table, reward_names=("step", "hill", "turn"))
    reward, trips = table @ [-1.5, -1.0, -0.8], []
    for goal in rng.choice(size, goals, replace=False).tolist():
        there = inside & (np.arange(size) != goal)[:, None]
        world = tacit.MDP(moves, mdp.initial, 1.0, available=there)
        paid = np.where(there.any(axis=1, keepdims=True), reward, 0.0)
        policy = tacit.solve(world, tacit.Objective(paid), solver=tacit.SoftDual(1.0)).policy
        origins = rng.choice(np.delete(np.arange(size), goal), each)
        for at in origins.tolist():
            passed, done = [at], []
            while passed[-1] != goal:
                done.append(int(rng.choice(4, p=policy[passed[-1]])))
                passed.append(int(rng.choice(states[passed[-1], done[-1]], p=[0.8, 0.1, 0.1])))
            trips.append((passed, done))
    seen = tacit.Demonstrations.from_trajectories(trips, ended=np.ones(len(trips), bool))
    return tacit.Trips(mdp, features, seen, discount=1.0)


def random_moves(args: Args) -> list[dict[str, Any]]:
    """CPU seconds with goals as columns and goal by goal, and how far the answers are apart."""
    from tacit.estimators.trips.goals import Columns

    rows, usable = [], Columns.usable
    for side in args.random:
        trips = slippery(side, 50, 4, args.seed)
        for kind in ("columns", "one_by_one"):  # compiled before it is timed
            few = replace(trips, demonstrations=trips.demonstrations.select(range(8)))
            Columns.usable = usable if kind == "columns" else property(lambda _: False)
            tacit.recover(few, throw=False)
        found, seconds = {}, {}
        for kind in ("columns", "one_by_one"):
            Columns.usable = usable if kind == "columns" else property(lambda _: False)
            start = time.process_time()
            found[kind] = tacit.recover(trips)
            seconds[kind] = time.process_time() - start
        Columns.usable = usable
        new, old = found["columns"], found["one_by_one"]
        apart = np.abs(new.parameters.estimates - old.parameters.estimates).max()
        errors = np.abs(new.parameters.standard_errors - old.parameters.standard_errors).max()
        row = {
            "states": side * side,
            "goals": 50,
            "steps": trips.demonstrations.steps,
            "cpu_seconds": seconds,
            "ratio": seconds["one_by_one"] / seconds["columns"],
            "estimates": new.parameters.estimates.tolist(),
            "largest_difference_of_estimates": float(apart),
            "largest_difference_of_standard_errors": float(errors),
            "largest_difference_of_flows": float(np.abs(new.flows - old.flows).max()),
        }
        print(json.dumps(row, indent=1))
        rows.append(row)
    return rows


def main(args: Args) -> None:
    load = os.getloadavg()[0]
    names = ("tacit-irl", "numpy", "scipy", "numba")
    if args.package is not None:
        document = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
        command = "python benchmarks/trips.py --package FOLDER --package-python PYTHON"
        measured = beside_package(args)
        head = about(names, load=load, command=command)
        document["package"] = head | measured
        print(json.dumps(document["package"], indent=1))
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        return
    if args.random:
        document = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
        rows = random_moves(args)
        document["random_moves"] = about(names, load=load) | {"rows": rows}
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        return
    if args.coverage:
        document = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
        measured = coverage(args)
        document["coverage"] = about(names, load=load) | measured
        print(json.dumps(document["coverage"], indent=1))
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        return
    made = town(args)
    seen = journeys(made, args)
    trips = tacit.Trips(made.mdp, made.features, seen, discount=1.0)
    # Compiled code is kept between processes: a first call on few trips is not counted.
    tacit.recover(tacit.Trips(made.mdp, made.features, seen.select(range(60)), discount=1.0))
    start, began = time.perf_counter(), time.process_time()
    recovery = tacit.recover(trips)
    seconds, own = time.perf_counter() - start, time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = recovery.parameters
    errors = {k: told.with_errors(k).standard_errors for k in ("fisher", "clustered")}
    away = np.abs(told.estimates - TRUTH) / errors["clustered"]
    row: dict[str, Any] = {
        "links": made.mdp.states,
        "turns": len(made.turns),
        "trips": seen.episodes,
        "steps": seen.steps,
        "goals": len(np.unique(seen.final_states)),
        "truth": TRUTH.tolist(),
        "estimates": told.estimates.tolist(),
        "standard_errors": {kind: error.tolist() for kind, error in errors.items()},
        "largest_distance_in_standard_errors": float(away.max()),
        "status": recovery.status.name,
        "projected_gradient": recovery.certificate.projected_gradient,
        "log_likelihood": recovery.log_likelihood,
        "seconds": seconds,
        "cpu_seconds": own,
        "peak_bytes": peak,
        "target": "within 3 standard errors, under 2 GiB, >= 5 times faster than SciPy",
    }
    began = time.process_time()
    searched = coefficients(trips)
    row["search_cpu_seconds"] = time.process_time() - began
    row["search_estimates"] = searched.tolist()
    if args.peer:
        peer = Peer(made, seen)
        start, began = time.perf_counter(), time.process_time()
        found = minimize(peer, begun(trips), jac=True, method="BFGS", options={"gtol": 1e-2})
        other, theirs = time.perf_counter() - start, time.process_time() - began
        row |= {
            "scipy_seconds": other,
            "scipy_cpu_seconds": theirs,
            "scipy_evaluations": peer.evaluations,
            "scipy_estimates": found.x.tolist(),
            "scipy_log_likelihood": -float(found.fun),
            "scipy_gradient": float(np.abs(found.jac).max()),
            "ratio": other / seconds,
            "cpu_ratio": theirs / own,  # what counts where others use the machine, too
            "search_cpu_ratio": theirs / row["search_cpu_seconds"],  # coefficients alone, both
        }
    print(json.dumps(row, indent=1))
    args.out.parent.mkdir(exist_ok=True)
    head = about(names, load=load)
    document = head | {"rows": [row]}
    document["package"] = {"absent": "RecursiveRouteChoice is not here: give it by --package"}
    if args.out.exists():
        document |= {
            k: v for k, v in json.loads(args.out.read_text()).items() if k not in ("rows", *head)
        }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
