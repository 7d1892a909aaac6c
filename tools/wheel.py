"""Builds the wheel, looks into it, installs it into an empty environment and runs `tacit demo`.

python tools/wheel.py     (`make wheel-test`; it needs the package index, and a minute or two)

It ends with exit code 1 where a file is missing in the wheel, the demo fails, or all of it after
the build takes longer than two minutes: by the clock, or, on a machine that was busy with other
things for more than half of that time, by the processor, as the clock says little there.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = (
    "tacit/py.typed",
    "tacit/show/templates/page.html",
    "tacit/show/templates/page.css",
    "tacit/show/templates/page.js",
    "tacit/worlds/mouse/demonstrations.csv",
    "tacit/worlds/mouse/features.csv",
    "tacit/worlds/mouse/problem.toml",
    "tacit/worlds/mouse/transitions.csv",
    "tacit_lab/commands.py",
    "tacit_lab/py.typed",
    "licenses/LICENSE",
    "METADATA",
    "entry_points.txt",
)
FOREIGN = ("tests/", "tools/", "benchmarks/", "docs/")


def run(*words: str | Path, cwd: Path) -> tuple[float, float]:
    """(seconds, processor seconds) of a command; what it says is shown where it fails."""
    # Nothing of the copy that runs this must be found by what is installed.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*map(str, words)], cwd=cwd, env=clean, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, busy


def missing(wheel: Path) -> list[str]:
    """What the wheel lacks, and what should not be in it."""
    names = zipfile.ZipFile(wheel).namelist()
    lost = [name for name in NEEDED if not any(found.endswith(name) for found in names)]
    return lost + [f"not {name}" for name in names if name.startswith(FOREIGN)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds from wheel to report")
    limit = parser.parse_args().limit
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", here / "dist", ROOT]
        told = {"build": run(*pip, cwd=here)}
        (wheel,) = (here / "dist").glob("tacit_irl-*.whl")
        if lost := missing(wheel):
            sys.exit(f"{wheel.name} must hold {', '.join(NEEDED)}; wrong: {', '.join(lost)}")
        told["environment"] = run(sys.executable, "-m", "venv", here / "empty", cwd=here)
        bin_folder = here / "empty" / ("Scripts" if os.name == "nt" else "bin")
        python = bin_folder / "python"
        told["install"] = run(python, "-m", "pip", "install", "-q", wheel, cwd=here)
        told["demo"] = run(bin_folder / "tacit", "demo", "--out", "demo", cwd=here)
        if not (here / "demo" / "run" / "report.html").exists():
            sys.exit("tacit demo must leave demo/run/report.html; it did not")
    for step, (clock, busy) in told.items():
        print(f"{step:12} {clock:6.1f} s, processor {busy:6.1f} s")
    clock, busy = (sum(told[step][k] for step in told if step != "build") for k in (0, 1))
    quiet = busy > 0.5 * clock
    judged = "" if quiet else f"; the machine was busy: its {busy:.1f} s of processor are judged"
    print(f"from the wheel to the report: {clock:.1f} s (limit {limit:g} s){judged}")
    sys.exit((clock if quiet else busy) > limit)


if __name__ == "__main__":
    main()
