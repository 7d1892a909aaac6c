"""Result files of the studies that are commands of tacit: the paper reproduced, and Rust.

    python benchmarks/studies.py reproduce reproduce-as-written rust    # some, or all of them

Runs the command in a folder that is thrown away and keeps what it found, with the head of every
result file, in benchmarks/results. `rust` needs TACIT_DATA.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from provenance import about
from tacit.cli import main as tacit

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("tacit-irl", "numpy", "scipy", "jax", "numba", "highspy")
# Name of the result file -> the command, and the file that it writes.
STUDIES = {
    "reproduce": (["reproduce"], "results.json"),
    "reproduce-as-written": (["reproduce", "--hill", "as-written"], "results.json"),
    "rust": (["reproduce", "rust"], "rust.json"),
}


def run(words: list[str], file: str) -> dict[str, Any]:
    """What a command of tacit writes into a file of its folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        if code := tacit([*words, "--out", str(folder)]):
            raise SystemExit(code)
        return json.loads((folder / file).read_text(encoding="utf-8"))


def main() -> None:
    """Runs what was asked for and writes each result file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*STUDIES, []], help="all where none is given")
    for name in parser.parse_args().names or STUDIES:
        found = run(*STUDIES[name])
        head = about(PACKAGES, command=f"python benchmarks/studies.py {name}")
        text = json.dumps(found | head, indent=1, ensure_ascii=False) + "\n"
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
