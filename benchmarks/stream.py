"""Streams: updates beside refits, alarms with and without a change, sets that hold at all times.

    python benchmarks/stream.py                        # all parts, at the committed sizes
    python benchmarks/stream.py --parts updates alarms --draws 20

Writes benchmarks/results/stream.json. Random worlds of 12 states and 3 actions, two reward features
and two costs. The price of the second is 0 except in `updates`, where it is small, so that the
constraint enters and leaves. Parts:

- `updates`: 200 batches of 250 steps: the largest difference between `recovery.updated` and a refit
  to all rows, in standard errors, how often both keep the same constraints, CPU seconds of each.
- `alarms`: run lengths over streams without a change, world known and counted; delays after a
  doubled price, half the noise, another goal and a change outside the model, beside a CUSUM that
  knows the truth before and after; which number was blamed.
- `anytime`: how often the truth stays in the set at all times, by the rule of rates.py; widths.
- `needed`: how often `more_needed` is right within a factor of 1.5.
- `certified`: how often a policy that is certified at 95 %, and no surer, breaks the true budget.
- `large`: an update by 250 steps after a million, beside a refit to all rows.
- `speed`: steps a second of a watch, in batches of 100 000, at 1 000 states.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import tacit
from provenance import about
from rates import Rate, coverage_verdict, size_verdict
from tacit.data.tally import Tally
from tacit.stream.anytime import falls_behind, widths_of

STATES, ACTIONS, DISCOUNT = 12, 3, 0.9
THETA = np.array([2.0, 1.0, 1.5, 0.0])  # two reward features, two costs
REFERENCE, BATCH = 2000, 100  # steps of the reference, and of a batch of a stream
RUN_LENGTH, QUIET, LATEST = 1000, 10_000, 6000  # promised; steps without a change, and after one
BEFORE = 500  # steps of a stream before a change
CHANGES = ("price", "noise", "goal", "outside")
RIGHT = {
    "price": ("the price of constraint 0",),
    "noise": ("the noise",),
    "goal": ("the reward", "the weight of reward feature 0", "the weight of reward feature 1"),
    "outside": ("the fit",),
}
PREFIX = 20_000  # steps that a million are drawn from


@dataclass(frozen=True, eq=False)
class Place:
    """A random world, its features, and how a demonstrator with some coefficients acts in it."""

    mdp: tacit.MDP
    features: tacit.Features

    @classmethod
    def drawn(cls, seed: int, states: int = STATES) -> Place:
        rng = np.random.default_rng(seed)
        moves = np.zeros((states, ACTIONS, states))
        for s, a in np.ndindex(states, ACTIONS):
            moves[s, a, rng.choice(states, 5, replace=False)] = rng.dirichlet(np.ones(5))
        mdp = tacit.MDP(moves, np.full(states, 1.0 / states), DISCOUNT)
        costs = [rng.random((states, ACTIONS, 1)) for _ in range(2)]
        return cls(mdp, tacit.Features(rng.random((states, ACTIONS, 2)), costs))

    def policy(self, theta: np.ndarray) -> np.ndarray:
        """[S, A] of the Boltzmann demonstrator with these coefficients."""
        costs = sum(t * c[..., 0] for t, c in zip(theta[2:], self.features.costs, strict=True))
        table = tacit.Objective(np.asarray(self.features.reward) @ theta[:2] - costs)
        return tacit.solve(self.mdp, table, solver=tacit.SoftDual(temperature=1.0)).policy

    def steps(self, policy: np.ndarray, steps: int, seed: int) -> tacit.Demonstrations:
        """One trajectory of so many steps."""
        return tacit.simulate(self.mdp, policy, trajectories=1, steps=steps, seed=seed)

    def recovered(self, seen: tacit.Demonstrations | Tally) -> tacit.Recovery:
        """By the likelihood of all steps."""
        return tacit.recover(
            self.mdp, self.features, seen, estimator=tacit.Likelihood(), throw=False
        )

    def counted(self, seed: int, steps: int = 5000) -> Place:
        """The same world as known from so many steps at random."""
        rng = np.random.default_rng([7, seed])
        states, actions = (rng.integers(n, size=steps) for n in (STATES, ACTIONS))
        chances = self.mdp.dense()[states, actions].cumsum(axis=1)
        after = (chances < rng.random((steps, 1))).sum(axis=1).clip(max=STATES - 1)
        shape = {"n_states": STATES, "n_actions": ACTIONS, "discount": DISCOUNT}
        mdp = tacit.MDP.from_transitions(states, actions, after, **shape, initial=self.mdp.initial)
        return replace(self, mdp=mdp)


def in_batches(seen: tacit.Demonstrations, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(states, actions) of every batch."""
    cuts = range(0, seen.steps, size)
    return [(seen.states[at : at + size], seen.actions[at : at + size]) for at in cuts]


def updates(draws: int) -> dict:
    """Updates beside refits to all rows."""
    rows = []
    for seed in range(draws):
        place, batches, size = Place.drawn(seed), 200, 250
        policy = place.policy(np.array([2.0, 1.0, 1.5, 0.15]))
        parts = [place.steps(policy, size, 1000 * seed + k) for k in range(batches + 4)]
        rows_seen = parts[0] + parts[1] + parts[2] + parts[3]
        found, worst, same, changes, ours, theirs = place.recovered(rows_seen), 0.0, 0, 0, 0.0, 0.0
        active = found.multipliers > 0
        for part in parts[4:]:
            rows_seen = rows_seen + part
            begin = time.process_time()
            found = found.updated(part)
            middle = time.process_time()
            refit = place.recovered(rows_seen)
            ours, theirs = ours + middle - begin, theirs + time.process_time() - middle
            gap = np.abs(found.parameters.tested - refit.parameters.tested)
            errors = found.parameters.with_errors("fisher").standard_errors
            ratio = gap / errors
            worst = max(worst, float(np.nanmax(np.where(np.isfinite(errors), ratio, np.nan))))
            kept = found.multipliers > 0
            same += int(np.array_equal(kept, refit.multipliers > 0))
            changes += int((kept != active).any())
            active = kept
        rows.append(
            {
                "batches": batches,
                "largest_difference": worst,
                "same_constraints": same / batches,
                "changes_of_constraints": changes,
                "update_seconds": ours / batches,
                "refit_seconds": theirs / batches,
            }
        )
        print("updates", rows[-1], flush=True)
    return {"rows": rows}


def cusum(before: np.ndarray, after: np.ndarray, batches: list, quiet: int) -> float:
    """Steps after the change until a CUSUM that knows both policies reaches the same run length."""
    gain, total, steps = np.log(after) - np.log(before), 0.0, 0
    for number, (states, actions) in enumerate(batches):
        for value in gain[states, actions]:
            total = max(total, 0.0) + float(value)
            steps += 1
            if total >= np.log(RUN_LENGTH) and number >= quiet:
                return steps - quiet * BATCH
    return np.inf


def first_alarm(reference: tacit.Recovery, batches: list) -> tacit.Watch:
    """The watch at its alarm, or at the end."""
    watch = tacit.Watch(reference, run_length=RUN_LENGTH)
    for batch in batches:
        if watch.update(batch).level == "alarm":
            break
    return watch


def changed(place: Place, what: str, seed: int) -> np.ndarray:
    """[S, A] how the demonstrator acts after a change."""
    theta = THETA.copy()
    if what == "price":
        theta[2] *= 2.0
    elif what == "noise":
        theta *= 2.0
    elif what == "goal":
        theta[:2] = theta[1::-1]
    policy = place.policy(theta)
    if what == "outside":  # in a third of the states as if actions had other names
        which = np.random.default_rng(seed).choice(STATES, STATES // 3, replace=False)
        policy = policy.copy()
        policy[which] = np.roll(policy[which], 1, axis=1)
    return policy


def alarms(draws: int) -> dict:
    """Run lengths without a change; delays and blame after one."""
    quiet: dict[str, list[float]] = {"known": [], "counted": []}
    delays: dict[str, list[tuple[float, float, str | None]]] = {what: [] for what in CHANGES}
    for seed in range(2 * draws):
        place = Place.drawn(seed)
        policy = place.policy(THETA)
        seen = tacit.simulate(place.mdp, policy, trajectories=REFERENCE // 50, steps=50, seed=seed)
        reference = place.recovered(seen)
        batches = in_batches(place.steps(policy, QUIET, 10_000 + seed), BATCH)
        for name, known in (("known", reference), ("counted", None)):
            if known is None:
                known = place.counted(seed).recovered(seen)
            watch = first_alarm(known, batches)
            quiet[name].append(float(watch.alarm or np.inf))
        for what in CHANGES if seed < draws else ():
            after = changed(place, what, seed)
            parts = in_batches(place.steps(policy, BEFORE, 20_000 + seed), BATCH)
            parts += in_batches(place.steps(after, LATEST, 30_000 + seed), BATCH)
            watch = first_alarm(reference, parts)
            early = watch.alarm is not None and watch.alarm <= BEFORE
            delay = np.nan if early else float((watch.alarm or np.inf) - BEFORE)
            best = cusum(policy, after, parts, BEFORE // BATCH)
            delays[what].append((delay, best, watch.changed))
    found: dict = {"promised": RUN_LENGTH, "quiet": {}, "changes": {}}
    for name, lengths in quiet.items():
        censored = np.minimum(lengths, QUIET)
        found["quiet"][name] = {
            "streams": len(lengths),
            "steps": QUIET,
            "alarms": int(np.isfinite(lengths).sum()),
            "mean_run_length_at_least": float(censored.mean()),
            "kept": bool(censored.mean() >= RUN_LENGTH),
        }
        print("alarms", name, found["quiet"][name], flush=True)
    for what, rows in delays.items():
        delay, best = (np.array([row[k] for row in rows], float) for k in (0, 1))
        blamed = Counter(str(row[2]) for row in rows if np.isfinite(row[0]))
        right = sum(blamed[name] for name in RIGHT[what])
        found["changes"][what] = {
            "streams": len(rows),
            "missed": int(np.isinf(delay).sum()),
            "early": int(np.isnan(delay).sum()),
            "median_delay": float(np.nanmedian(delay)),
            "delay_90": float(np.nanquantile(delay, 0.9, method="higher")),
            "cusum_median_delay": float(np.median(best)),
            "blamed_right": right / max(sum(blamed.values()), 1),
            "blamed": dict(blamed.most_common()),
        }
        print("alarms", what, found["changes"][what], flush=True)
    return found


def anytime(draws: int) -> dict:
    """How often the truth stays in the set at all times, and how wide it is at the end."""
    held, ratios, batches = 0, [], [250] * 4 + [500] * 4 + [1000] * 4
    for seed in range(draws):
        place = Place.drawn(seed)
        policy = place.policy(THETA)
        found, stays = place.recovered(place.steps(policy, 500, seed)), True
        for k, size in enumerate(batches):
            found = found.updated(place.steps(policy, size, 100_000 * (k + 1) + seed))
            stays &= falls_behind(found, THETA) <= np.log(20.0)
        held += stays
        if seed < 20:
            wide = np.diff(found.anytime().intervals, axis=1)[:3, 0]
            ratios += (wide / np.diff(found.parameters.intervals, axis=1)[:3, 0]).tolist()
    verdict = coverage_verdict([Rate("all times", held, draws, "streams")])
    print("anytime", verdict, "width", np.median(ratios), flush=True)
    return {
        "verdict": asdict(verdict),
        "looks": len(batches),
        "steps": 500 + sum(batches),
        "median_width_over_fixed_time": float(np.median(ratios)),
    }


def counted_steps(place: Place, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Tally:
    """The sums of some of the steps that went on."""
    counts = np.zeros((place.mdp.states, ACTIONS))
    np.add.at(counts, tuple(np.concatenate(part) for part in zip(*pairs, strict=True)), 1.0)
    return Tally.of_counts(counts, DISCOUNT)


def needed(draws: int) -> dict:
    """How often the number of steps for a price that is half as uncertain is right within 1.5."""
    right = within = 0
    for seed in range(draws):
        place, name = Place.drawn(seed), "price 0"
        policy = place.policy(THETA)
        found = place.recovered(place.steps(policy, REFERENCE, seed))
        width = 0.5 * widths_of(found)[name]
        told = found.more_needed(width, name)
        total = REFERENCE + told.steps
        later = in_batches(place.steps(policy, round(1.5 * total), 5000 + seed), 1)
        after = [
            widths_of(found.updated(counted_steps(place, later[: round(total * f) - REFERENCE])))
            for f in (1.0 / 1.5, 1.0, 1.5)
        ]
        right += after[0][name] >= width >= after[2][name]
        low, high = told.steps_interval
        exact = total * (after[1][name] / width) ** 2 - REFERENCE
        within += low <= exact <= high
    print("needed", right, within, draws, flush=True)
    return {"draws": draws, "within_1.5": right / draws, "in_its_interval": within / draws}


def certified(draws: int) -> dict:
    """How often a policy that is certified at 95 %, and no surer, breaks the true budgets."""
    broken, tried = 0, 0
    for seed in range(draws):
        place = Place.drawn(seed)
        policy = place.policy(THETA)
        seen = tacit.simulate(place.mdp, policy, trajectories=REFERENCE // 50, steps=50, seed=seed)
        found = place.recovered(seen)
        try:
            edge = tacit.solve(place.mdp, found.cautious())
        except tacit.Infeasible:
            continue
        if not found.certify(edge).safe:
            continue
        tried += 1
        costs = [table[..., 0] for table in place.features.costs]
        true = tacit.policies.visitation(place.mdp, policy)
        spent = [float((cost * edge.visitation).sum()) for cost in costs]
        budgets = [float((cost * true).sum()) for cost in costs]
        broken += spent[0] > budgets[0] * (1.0 + 1e-9)  # the other has no price, and no budget
    verdict = size_verdict([Rate("edge of the cautious set", broken, tried, "worlds")])
    print("certified", verdict, flush=True)
    return {"draws": draws, "certified": tried, "verdict": asdict(verdict)}


def large(draws: int) -> dict:
    """An update by 250 steps after many, beside a refit to all rows."""
    place = Place.drawn(0)
    policy = place.policy(THETA)
    seen = tacit.simulate(place.mdp, policy, trajectories=100 * draws, steps=1000, seed=0)
    more = place.steps(policy, 250, 1)
    found = place.recovered(seen)
    begin = time.process_time()
    found.updated(more)
    middle = time.process_time()
    place.recovered(seen + more)
    rows = {"steps": seen.steps, "update_seconds": middle - begin}
    rows["refit_seconds"] = time.process_time() - middle
    print("large", rows, flush=True)
    return rows


def speed(draws: int) -> dict:
    """Steps a second of a watch at 1 000 states."""
    place = Place.drawn(0, states=1000)
    policy = place.policy(THETA)
    reference = place.recovered(place.steps(policy, PREFIX, 0))
    watch, seen = tacit.Watch(reference), place.steps(policy, PREFIX, 1)
    many = np.tile(seen.states, 5), np.tile(seen.actions, 5)
    begin = time.process_time()
    for _ in range(draws):
        watch.update(many)
    seconds = time.process_time() - begin
    found = {"states": 1000, "steps": draws * len(many[0]), "steps_a_second": 0.0}
    found["steps_a_second"] = found["steps"] / seconds
    print("speed", found, flush=True)
    return found


PARTS: dict[str, tuple[Callable[[int], dict], int]] = {
    "updates": (updates, 2),
    "alarms": (alarms, 100),
    "anytime": (anytime, 150),
    "needed": (needed, 100),
    "certified": (certified, 150),
    "large": (large, 10),
    "speed": (speed, 20),
}


def main() -> None:
    """Runs the parts that were asked for, and writes them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", nargs="*", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--draws", type=int, help="of each part")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/stream.json")
    asked = parser.parse_args()
    found = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
    for name in asked.parts:  # parts that are not run again stay as they were
        run, many = PARTS[name]
        found[name] = run(many if asked.draws is None else asked.draws)
        body = found | about(["tacit-irl", "numpy", "scipy"])
        asked.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
