"""How many rooms of the house one `tacit recover` walks through.

python tests/walk_recover.py [--json FILE] [--imports]

The first recovery of a fresh process is watched, so that what JAX traces is counted too, whatever
is kept on disk of earlier compilations. Other threads are not counted, nor is what runs only
because a module is imported: its own code, the bodies of its classes, its decorators. With
`--imports` the latter two are. A room is a folder or a file right under `src/tacit`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from dis import opmap
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tacit

PACKAGE = Path(tacit.__file__).parent
EPISODES, STEPS = 100, 30
# Two redraws of the estimated transitions show the way as well as twenty.
OPTIONS = ("--no-report", "--dynamics-draws", "2")
PARTS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
RESUME = opmap["RESUME"]
LINES_A_MODULE = 350


def written(folder: Path) -> Path:
    """Nine rooms in plain text: a noisy mouse, and transitions that must be estimated."""
    import numpy as np

    rng = np.random.default_rng(0)
    names = [f"room {n}" for n in range(9)]
    moves = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
    row, column = np.divmod(np.arange(9)[:, None], 3)
    down, right = np.array(list(moves.values())).T
    leads = 3 * np.clip(row + down, 0, 2) + np.clip(column + right, 0, 2)  # [S, A]
    food, heat, values = np.eye(9)[8], np.eye(9)[4], np.zeros(9)
    for _ in range(200):
        worth = (food - heat)[:, None] + 0.9 * values[leads]
        values = 0.5 * np.log(np.exp(worth / 0.5).sum(axis=1))
    policy = np.exp((worth - values[:, None]) / 0.5)
    rows = ["episode,step,state,action"]
    for episode in range(EPISODES):
        state = 0
        for step in range(STEPS):
            action = rng.choice(4, p=policy[state] / policy[state].sum())
            rows.append(f"{episode},{step},{names[state]},{[*moves][action]}")
            state = int(leads[state, action if rng.random() < 0.9 else rng.integers(4)])
    told = [f"{name},{food[n]},{heat[n]},{n % 3 / 2}" for n, name in enumerate(names)]
    files = {
        "demonstrations.csv": rows,
        "features.csv": ["state,food,heat,draught", *told],
        "problem.toml": [
            "discount = 0.9",
            'initial = "room 0"',
            "[features]",
            'reward = ["food"]',
            'costs = [["heat", "draught"]]',
        ],
    }
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class Walk:
    """Notes every function of the package that runs, and from which room it was called."""

    def __init__(self, *, imports: bool = False) -> None:
        self.imports = imports
        self.functions: set[tuple[str, str, int]] = set()
        self.edges: Counter[tuple[str, str]] = Counter()
        self.calls = 0
        self._known: dict[CodeType, tuple[str, ...] | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function."""
        if event != "call":
            return
        code, place = frame.f_code, self._place(frame.f_code)
        # Comprehensions are parts of functions, and a generator that goes on is not called again.
        again = code.co_flags & CO_GENERATOR and frame.f_lasti > code.co_code.index(RESUME)
        if place is None or code.co_name in PARTS or again:
            return
        if not self.imports and self._importing(frame):
            return
        self.calls += 1
        self.functions.add(("/".join(place), code.co_qualname, code.co_firstlineno))
        caller = frame.f_back
        # Through library code, such as a compiler's, to the last function of the package.
        while caller is not None and (came := self._place(caller.f_code)) is None:
            caller = caller.f_back
        if caller is not None and came[0] != place[0]:
            self.edges[came[0], place[0]] += 1

    def _importing(self, frame: FrameType | None) -> bool:
        """Whether a module of the package is being imported."""
        while frame is not None:
            name = frame.f_code.co_name
            if name == "<module>" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                return True
            frame = frame.f_back
        return False

    def _place(self, code: CodeType) -> tuple[str, ...] | None:
        """The parts of the path inside the package of a function; None for any other code."""
        if code not in self._known:
            path, place = Path(code.co_filename), None
            if code.co_name != "<module>" and path.is_relative_to(PACKAGE):
                place = path.relative_to(PACKAGE).with_suffix("").parts
            self._known[code] = place
        return self._known[code]

    def lines(self) -> int:
        """Lines of the source of all functions that ran, one within another counted once."""
        asked: dict[str, set[int]] = {}
        for module, _, line in self.functions:
            asked.setdefault(module, set()).add(line)
        total = 0
        for module, firsts in asked.items():
            tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
            own: set[int] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    if first in firsts:
                        own.update(range(first, (node.end_lineno or first) + 1))
            total += len(own)
        return total

    def figures(self) -> dict[str, Any]:
        """All that is printed."""
        modules, lines = sorted({module for module, _, _ in self.functions}), self.lines()
        return {
            "modules": len(modules),
            "lines": lines,
            # Were every module full, and made of nothing that this way does not need.
            "least_modules": -(-lines // LINES_A_MODULE),
            "functions": len(self.functions),
            "calls": self.calls,
            "crossings": sum(self.edges.values()),
            "edges": {f"{a} -> {b}": n for (a, b), n in self.edges.most_common()},
            "module_names": modules,
            "function_names": sorted(
                f"{module}:{function}" for module, function, _ in self.functions
            ),
        }


def walked(*, imports: bool = False) -> dict[str, Any]:
    """The figures of one recovery, as the command line makes it, without a report."""
    from tacit.cli import main

    walk = Walk(imports=imports)
    with tempfile.TemporaryDirectory() as folder:
        problem = written(Path(folder) / "house")
        words = ["recover", str(problem), "--out", str(Path(folder) / "run"), *OPTIONS]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            sys.setprofile(walk)
            try:
                code = main(words)
            finally:
                sys.setprofile(None)
    if code != 0:
        raise SystemExit(said.getvalue())
    return walk.figures()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--imports", action="store_true")
    asked = parser.parse_args()
    found = walked(imports=asked.imports)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{found['modules']} modules, {found['functions']} functions, {found['calls']} calls")
    print(
        f"{found['lines']} lines of functions: {found['least_modules']} modules at least, of "
        f"{LINES_A_MODULE} lines that are all needed"
    )
    print(f"{found['crossings']} calls from one room to another:")
    for edge, count in found["edges"].items():
        print(f"{count:6}  {edge}")
    print(*found["module_names"], sep="\n")


if __name__ == "__main__":
    main()
