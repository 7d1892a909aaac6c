"""The page of the leaderboard from a run of `tacit leaderboard`.

    tacit leaderboard --seeds 2 --out board
    python benchmarks/leaderboard.py board

Keeps the numbers of that run in benchmarks/results/leaderboard.json and writes docs/leaderboard.md
from that file; without a folder it writes the page anew from what is kept.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from provenance import about
from tacit.studies.leaderboard import HIDES, METRICS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard.json"
PAGE = ROOT / "docs" / "leaderboard.md"
SHOWN = ("regret", "violation", "log_likelihood", "same_regret", "same_violation", "share_safe",
         "wrong", "recall", "seconds")  # fmt: skip
HEAD = """# Leaderboard

Every method sees the same demonstrations; the truth is hidden from all and judges all. What a
method's paper takes for known (the reward, the noise, a budget), it is told. Made by

```
{command}
```

{hides} Regret is a share of what policies can earn at most less at least; a violation of 1 spends
beyond the budget what someone spends who does not mind; "solved again" is the best policy for the
recovered objective, in the true world; safe is the share of five worlds (the same, new dynamics,
new starts, new budgets, a new reward) without a violation. `tacit leaderboard` writes the same as
a page with tables to sort and pictures, and takes worlds and methods of your own: `--methods
FILE.py:NAME`, where NAME is a function from a contest to an estimator.
"""


def number(found: dict | None) -> str:
    """A mean and its standard error as a cell."""
    if found is None:
        return ""
    mean = f"{found['mean']:.3f}"
    return mean if found["error"] is None else f"{mean} ± {found['error']:.3f}"


def page(results: dict) -> str:
    """The text of the page."""
    parts = [HEAD.format(command=results["command"], hides=HIDES)]
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
            name = row["method"] + (" †" if row["misfits"] else "")
            parts.append(f"| {name} | {row['told']} | " + " | ".join(cells) + " |")
        if any(row["misfits"] for row in world["methods"]):
            parts.append("\n† says itself that the model does not fit.")
        if absent:
            parts.append(f"\nNot there: {'; '.join(absent)}.")
        draws = "draw" if world["draws"] == 1 else "draws"
        parts.append(f"\n{world['draws']} {draws}; means and standard errors. {world['said']}\n")
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Keeps the results of a run, if one is given, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of `tacit leaderboard`")
    given = parser.parse_args()
    if given.folder is not None:
        found = json.loads((given.folder / "results.json").read_text(encoding="utf-8"))
        command = f"tacit leaderboard --seeds {found['settings']['seeds']}"
        head = about(("tacit-irl", "numpy", "scipy", "jax"), command=command)
        text = json.dumps(head | found, indent=1) + "\n"
        RESULTS.write_text(text, encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
