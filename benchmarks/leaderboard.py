"""The page of the leaderboard from a run of `tacit leaderboard`.

    python benchmarks/leaderboard.py --seeds 3
    python benchmarks/leaderboard.py --seeds 3 --worlds nine-by-nine    # these worlds alone, anew
    python benchmarks/leaderboard.py                                    # writes the page anew

Runs `tacit leaderboard` with these words, keeps its numbers in benchmarks/results/leaderboard.json,
where every world says how it was run, and writes docs/leaderboard.md from that file, from
published.json (walls, prices and safe sets on more draws) and from objectworld.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from provenance import about, origin
from studies import run
from tacit_lab.studies.leaderboard import HIDES, METRICS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard.json"
PAGE = ROOT / "docs" / "leaderboard.md"
SHOWN = ("regret", "violation", "log_likelihood", "same_regret", "same_violation", "share_safe",
         "feasible", "wrong", "recall", "recall_decidable", "price_error", "seconds")  # fmt: skip
HEAD = """# Leaderboard

Every method sees the same demonstrations; the truth is hidden from all and judges all. What a
method's paper takes for known (the reward, the noise, a budget), it is told. Made by

```
{command}
```

From {origin}. It took {seconds:.0f} seconds of one processor. {hides}

Regret is a share of what policies can earn at most less at least; a violation of 1 spends
beyond the budget what someone spends who does not
mind (at least a tenth of the budget); "solved again" is the best policy for the recovered
objective, in the true world; safe is the share of five worlds (the same, new dynamics,
new starts, new budgets, a new reward) without a violation; feasible the share of trips, solved
again, that arrive and enter nothing forbidden. `tacit leaderboard` writes the same as a page with
tables to sort, a forest plot for each metric and mean ranks with their critical difference, and
takes worlds and methods of your own: `--methods FILE.py:NAME`, where NAME is a function from a
contest to an estimator, `--worlds FILE.py:NAME`, where NAME is a `Place`, or both by the entry
points of an installed package ([an example](families.md#worlds-and-methods-of-your-own)).
"""


def number(found: dict | None) -> str:
    """A mean and its standard error as a cell."""
    if found is None:
        return ""
    mean = f"{found['mean']:.3f}"
    return mean if found["error"] is None else f"{mean} ± {found['error']:.3f}"


def page(results: dict) -> str:
    """The text of the page."""
    seconds = sum(world["seconds"] for world in results["worlds"])
    commands = dict.fromkeys(world["run"]["command"] for world in results["worlds"])
    parts = [
        HEAD.format(
            command="\n".join(commands),
            origin=origin("leaderboard", results),
            hides=HIDES,
            seconds=seconds,
        )
    ]
    for world in results["worlds"]:
        parts.append(f"## {world['title']}\n")
        if world["absent"]:
            parts.append(f"Not run: {world['absent']}\n")
            continue
        shown = [n for n in SHOWN if any(n in row["metrics"] for row in world["methods"])]
        parts.append("| method | told | " + " | ".join(METRICS[n][0].lower() for n in shown) + " |")
        parts.append("|---|---|" + "---|" * len(shown))
        absent = []
        for row in world["methods"]:
            if not row["metrics"]:
                absent.append(f"{row['method']} ({'; '.join(row['statuses'])[:120]})")
                continue
            cells = [number(row["metrics"].get(n)) for n in shown]
            name = row["method"]
            if row["misfits"]:
                name += f" † {row['misfits']} of {world['draws']}"
            parts.append(f"| {name} | {row['told']} | " + " | ".join(cells) + " |")
        if any(row["misfits"] for row in world["methods"]):
            parts.append("\n† says itself, in so many of the draws, that the model does not fit.")
        if absent:
            parts.append(f"\nNot there: {'; '.join(absent)}.")
        draws = "draw" if world["draws"] == 1 else "draws"
        parts.append(f"\n{world['draws']} {draws}; means and standard errors. {world['said']}\n")
    parts += measured_apart()
    return "\n".join(parts).rstrip() + "\n"


def kept(name: str) -> dict:
    """What a committed result file holds."""
    return json.loads((RESULTS.parent / f"{name}.json").read_text(encoding="utf-8"))


def table(heads: list[str], rows: list[list[object]]) -> str:
    """A table of the page; numbers with three decimals."""
    cells = [
        [f"{c:.3f}".rstrip("0").rstrip(".") if isinstance(c, float) else str(c) for c in row]
        for row in rows
    ]
    lines = [" | ".join(heads), "|".join("---" for _ in heads), *map(" | ".join, cells)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def measured_apart() -> list[str]:
    """Walls, prices, safe sets and Objectworld, on more draws than a board has."""
    found, objects = kept("published"), kept("objectworld")
    walls, prices, tasks = (found[name]["rows"] for name in ("walls", "prices", "tasks"))
    made = [f"From {origin(name, kept(name))}.\n" for name in ("published", "objectworld")]
    parts = ["## Walls: what can be told, and what is found\n", made[0]]
    names = ["forbidden", "beside_what_is_free", "decidable", "decidable_found", "found", "wrong",
             "violation", "feasible_reward"]  # fmt: skip
    heads = ["setting", "forbidden", "beside what is free", "can be told", "told of these", "found",
             "wrong", "violation, solved again", "feasible reward"]  # fmt: skip
    parts.append(table(heads, [[name, *(row[n] for n in names)] for name, row in walls.items()]))
    parts.append(
        "`Forbidden`, reward and noise known, means of 5 draws (`python benchmarks/published.py`). "
        "A cell can be told if its test is at the level where all other walls are shut; what is "
        "shut in by other walls cannot be told by anybody. More may be found than can be told so: "
        "of two cells that excuse each other one explains all.\n"
    )
    parts.append("## Prices on the 6 x 6 grid, 1000 x 100 steps, the noise given\n")
    rows = [["true", *prices["true"], "", ""], ["Schlaginhaufen and Kamgarpour", 35.3, 4.9, "", ""]]
    for name in ("Likelihood", "ConstraintOnly"):
        row = prices[name]
        rows.append([name, *row["median"], *row["relative_error_of_the_median"]])
    parts.append(table(["method", "price 0", "price 1", "error 0", "error 1"], rows))
    spread = [row["spread_of_a_draw"] for row in (prices["Likelihood"], prices["ConstraintOnly"])]
    parts.append(
        f"Medians of {prices['draws']} draws and their relative errors. One draw scatters by "
        f"{spread[0][0]:.0%} and {spread[0][1]:.0%}, by {spread[1][0]:.0%} and {spread[1][1]:.0%} "
        "where the reward is known as well: no method comes nearer from one such draw.\n"
    )
    parts.append("## Safe sets on the 3 x 3 grid\n")
    names = ["mean_regret", "mean_share", "error_of_share", "unsafe", "tasks", "largest_excess"]
    heads = ["task", "regret", "as a share of best less worst", "its error", "unsafe", "of",
             "largest excess"]  # fmt: skip
    parts.append(table(heads, [[name, *(row[n] for n in names)] for name, row in tasks.items()]))
    sure = [row["nobody_so_sure"] for name, row in tasks.items() if "confidence" in name]
    parts.append(
        "Published, their code, 6 seeds, as a share: .681 of a new reward from 4 demonstrators, "
        ".002 of the same task and .159 of new dynamics from 30, always safe. Ours is the best "
        "policy of the same set, on other draws: of the same demonstrations nobody safe in it has "
        "less regret, and more demonstrators of one draw never make more of it. Where "
        "demonstrators were only seen, what is unsafe is their sampling error, which `SafeSet` "
        "says in a finding, with how far it reaches; `confidence` lowers every facet by it, and "
        f"in {sum(sure)} of {sum(row['tasks'] for name, row in tasks.items() if 'conf' in name)} "
        "tasks it says that nobody is so sure and keeps the facets that were seen.\n"
    )
    parts += ["## Objectworld: mean V* - V\n", made[1]]
    rows = []
    for n, held in objects["recorded"].items():
        best = held["distances" if n == "4" else "ridge"]["loss"]
        fresh = objects["fresh"].get(n)
        mean = fresh["mean_loss"] if fresh else {}
        rows.append([
            n, best, held["iavi"]["policy_loss"], held["iavi"]["loss"], mean.get("ours", ""),
            mean.get("iavi policy", ""), mean.get("iavi reward", ""),
            f"{fresh['share_won']:.0%} of {fresh['draws']}" if fresh else "",
        ])  # fmt: skip
    heads = ["trajectories", "Likelihood", "IAVI's policy", "optimum of IAVI's reward",
             "fresh: Likelihood", "fresh: policy", "fresh: reward", "won"]  # fmt: skip
    parts.append(table(heads, rows))
    parts.append(
        "The optimum of the found reward, of one feature a cell with a ridge; with 4 trajectories "
        "of the four distances with a smooth prior. Fresh trajectories are new draws in the same "
        "world; won are the draws in which it beats both. `python benchmarks/objectworld.py`.\n"
    )
    return parts


def main() -> None:
    """Runs worlds, where it is asked to, keeps what was found, and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, help="draws of each world; runs nothing without it")
    parser.add_argument("--worlds", nargs="+", default=[], help="these alone")
    asked = parser.parse_args()
    if asked.seeds is not None:
        words = ["leaderboard", "--seeds", str(asked.seeds)]
        words += ["--worlds", *asked.worlds] if asked.worlds else []
        found = run(words, "results.json")
        head = about(("tacit-irl", "numpy", "scipy", "jax"))
        head["command"] = f"TACIT_DATA=... {head['command']}"
        fresh = {world["name"]: world | {"run": head} for world in found["worlds"]}
        if asked.worlds and RESULTS.exists():
            before = kept("leaderboard")
            fresh = {world["name"]: world for world in before["worlds"]} | fresh
            found = before
        text = json.dumps(found | {"worlds": list(fresh.values())}, indent=1) + "\n"
        RESULTS.write_text(text, encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
