"""Which result files were measured with other code than there is now.

    python benchmarks/stale.py              # or `make bench-stale`
    python benchmarks/stale.py zeros trips  # of these alone

Lists every file in benchmarks/results whose modules of tacit have changed since, and every file
from before there were fingerprints, with the command that measures it again. Comments, docstrings
and layout are no change. Exits with 1 where there is any, else with 0.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from provenance import changed, heads

RESULTS = Path(__file__).parent / "results"


def reasons(document: dict) -> list[str]:
    """Why a file is stale, and what measures it again, by its parts; empty where it is fresh."""
    parts = list(heads(document))
    if not parts:
        return ["says nothing of its making"]
    stale: dict[str, list[str]] = {}
    for place, head in parts:
        modules = changed(head)
        if modules == []:
            continue
        why = "measured before fingerprints"
        if modules:
            since = f"{head['date']} (commit {head['commit']})"
            why = f"{', '.join(modules)} changed since {since}"
        places = stale.setdefault(f"{why}\n    again: {head['command']}", [])
        places += [place] if place and place not in places else []
    return [f"{', '.join(places)}{': ' if places else ''}{why}" for why, places in stale.items()]


def main() -> int:
    """Prints what is stale; the exit status says whether anything is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="result files; all where none is given")
    parser.add_argument("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    paths = [given.results / f"{Path(name).stem}.json" for name in given.names]
    paths = paths or sorted(given.results.glob("*.json"))
    if missing := [path.name for path in paths if not path.exists()]:
        parser.error(f"no such result file: {', '.join(missing)}")
    stale = 0
    for path in paths:
        lines = reasons(json.loads(path.read_text(encoding="utf-8")))
        stale += bool(lines)
        for line in lines:
            print(f"{path.name}: {line}")
    print(f"{stale} of {len(paths)} result files are stale")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
