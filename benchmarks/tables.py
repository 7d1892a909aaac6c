"""The tables of measurements in docs/, and the day of each.

    python benchmarks/tables.py    # writes them into the pages

Pages have marks, `<!-- made: NAME -->` and `<!-- end -->`; what stands between them is made here,
in scale_tables.py, trust_tables.py or reproduce_tables.py, and nowhere else, and a test compares.
Below each block stand the result files that it was made from, with their days. Beside other numbers
of a result file stand `<!-- measured: NAME ... -->` and `<!-- end -->`, and between them its day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from provenance import heads, origin

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
MEASURED = re.compile(r"(<!-- measured: ([\w -]+) -->\n).*?(<!-- end -->)", re.S)
MARKS = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)

JOIN = "\u00a0"  # a space at which no line breaks: a number stays with its unit
Results = dict[str, Any]  # name of a result file -> what it holds
CONSTRAINED = ("HiGHS simplex", "HiGHS interior point")
UNCONSTRAINED = (
    "QuantEcon",
    "QuantEcon modified",
    "mdpsolver",
    "pymdptoolbox",
    "pymdptoolbox, values",
)


def results(folder: Path = RESULTS) -> Results:
    """Every result file, by its name."""
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }


class Record(dict[str, Any]):
    """Result files by name, and which of them were read."""

    def __init__(self, found: Results) -> None:
        super().__init__(found)
        self.read: list[str] = []

    def __getitem__(self, name: str) -> Any:
        if name not in self.read:
            self.read.append(name)
        return super().__getitem__(name)


def origins(names: Iterable[str], found: Results) -> str:
    """The sentence on where numbers come from, and when they were measured."""
    return f"From {'; '.join(origin(name, found[name]) for name in names)}."


def duration(seconds: float | None) -> str:
    """A time with three digits and the unit it is read in."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{digits(seconds / size)}{JOIN}{unit}"
    return f"{digits(seconds * 1e6)}{JOIN}µs"


def digits(number: float) -> str:
    """Three digits, without an exponent."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def count(number: float) -> str:
    """A whole number in groups of three."""
    return f"{number:,.0f}".replace(",", JOIN)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; columns after the first `left` are numbers, and stand right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)) + "\n"


# --------------------------------------------------------------------------------------------------
# Forward solvers
# --------------------------------------------------------------------------------------------------


def at(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any] | None:
    """The row with these entries."""
    hits = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return hits[0] if hits else None


def cell(row: dict[str, Any] | None) -> str:
    """What a solver needed: a time, a bound where it was stopped, a dash where it did not run."""
    if row is None or row["seconds"] is None or row["status"] not in ("done", "capped"):
        return "–"
    return (f">{JOIN}" if row["status"] == "capped" else "") + duration(row["seconds"])


def contest(task: str, peers: Sequence[str]) -> Callable[[Results], str]:
    """The block of one task: a line for every problem and discount, a column for every solver."""

    def block(found: Results) -> str:
        rows = found["forward"]["rows"]
        keys = dict.fromkeys(
            (row["discount"], row["problem"], row["states"]) for row in rows if row["task"] == task
        )
        lines = []
        for discount, problem, states in sorted(keys, key=lambda k: (k[1].split()[0], k[0], k[2])):
            here = {"task": task, "discount": discount, "problem": problem}
            ours = at(rows, **here, solver="tacit")
            theirs = [at(rows, **here, solver=peer) for peer in peers]
            done = [r for r in theirs if r and r["status"] in ("done", "capped")]
            best = min(done, key=lambda r: r["seconds"], default=None)
            ratio = "–"
            if best and ours:
                bound = f">{JOIN}" if best["status"] == "capped" else ""
                ratio = f"{bound}{digits(best['seconds'] / ours['seconds'])}{JOIN}times"
            name = problem.split()[0]
            lines.append(
                [name, f"{discount:g}", count(states), cell(ours), *map(cell, theirs), ratio]
            )
        return table(
            ["model", "discount", "states", "tacit", *peers, "fastest peer / tacit"], lines
        )

    return block


def faster(found: Results) -> str:
    """Every row in which a peer needs less time than tacit."""
    rows = found["forward"]["rows"]
    lines = []
    for row in rows:
        here = {name: row[name] for name in ("task", "discount", "problem")}
        ours = at(rows, **here, solver="tacit")
        if row["solver"] == "tacit" or row["status"] != "done" or not ours:
            continue
        if row["seconds"] < ours["seconds"]:
            error = f"{row['errors']['values']:.0e}" if "values" in row["errors"] else "–"
            own = f"{ours['errors']['values']:.0e}" if "values" in ours["errors"] else "–"
            lines.append(
                [
                    f"{row['task']}, {row['problem']}, {row['discount']:g}",
                    f"{row['solver']} ({row['settings']})",
                    duration(row["seconds"]),
                    duration(ours["seconds"]),
                    error,
                    own,
                ]
            )
    compared = sum(r["solver"] != "tacit" and r["status"] == "done" for r in rows)
    head = ["problem", "peer", "its time", "tacit's", "error of its values", "bound of tacit's"]
    return f"{len(lines)} of {compared} rows:\n\n" + table(head, lines, left=2)


def inherited(found: Results) -> bool:
    """Whether the peaks in forward.json are those of the process that started each row's own.

    Older files have them by getrusage, where a child starts at its parent's peak: then even the
    smallest model has the peak of the largest, and each is a bound from above.
    """
    rows = [row for row in found["forward"]["rows"] if row["peak_gib"]]
    small = [row["peak_gib"] for row in rows if row["states"] < 10**6]
    return any(row["peak_gib"] in small for row in rows if row["states"] >= 10**6)


def million(found: Results) -> str:
    """A million states, tacit alone."""
    rows = [row for row in found["forward"]["rows"] if row["states"] >= 10**6]
    caution = (
        "\nThe peak memory noted in this file is that of the process which started these rows: it "
        "bounds theirs from above. The next section has tacit's own.\n"
    )
    return table(
        ["task", "discount", "states", "time", "largest residual of the certificate"],
        [
            [
                row["task"],
                f"{row['discount']:g}",
                count(row["states"]),
                cell(row),
                f"{max(map(abs, row['certificate'].values())):.0e}",
            ]
            for row in rows
        ],
    ) + (caution if inherited(found) else "")


# --------------------------------------------------------------------------------------------------
# Recovery, data, memory
# --------------------------------------------------------------------------------------------------


def gradient(found: Results) -> str:
    lines = [
        [
            count(row["states"]),
            duration(row["tacit_seconds_a_gradient_with_hessian"]),
            duration(row["imitation_seconds_a_gradient"]),
            f"{digits(row['ratio'])} times",
            f"{row['tacit_against_imitation_with_discounted_policy']:.0e}",
            f"{row['imitation_as_it_is_against_discounted_policy']:.2f}",
        ]
        for row in found["mce_irl"]["rows"]
    ]
    head = ["states", "tacit, with Hessian", "imitation", "ratio"]
    return table([*head, "difference, same policy", "difference, imitation as it is"], lines, 0)


def reading(found: Results) -> str:
    lines = [
        [
            f"{row['table']}, {row['format']}",
            count(row["steps"]),
            duration(row["scan_seconds"]),
            duration(row["load_seconds"]),
            f"{digits(row['ratio'])} times",
            f"{row['peak_gib']:.2f} GiB",
        ]
        for row in found["ingest"]["rows"]
    ]
    return table(["table", "steps", "Polars' scan", "tacit", "ratio", "peak memory"], lines)


def partitions(found: Results) -> str:
    lines = [
        [row["case"], duration(row["seconds"]), f"{row['peak_gib']:.2f} GiB"]
        for row in found["partitions"]["rows"]
    ]
    said = f"{count(found['partitions']['steps'])} steps, `Likelihood` with standard errors.\n\n"
    return said + table(["case", "time", "peak memory"], lines)


def growth(found: Results) -> str:
    """By problems and by steps; a hole where a size was left out."""
    curves = found["curves"]
    ways = ("one call", "a loop")
    sizes = sorted({row["problems"] for row in curves["problems"]})
    lines = [
        [count(size), *(cell_of(curves["problems"], way=way, problems=size) for way in ways)]
        for size in sizes
    ]
    many = table(["problems", "one `recover_many`", "a loop over `recover`"], lines, 0)
    lines = [
        [count(row["steps"]), duration(row["read_seconds"]), duration(row["seconds"])]
        for row in curves["steps"]
    ]
    steps = table(["steps", "reading", "reading and recovering"], lines, 0)
    lines = [
        [count(r["states"]), duration(r["seconds"]), duration(r["seconds"] / r["states"])]
        for r in curves["gradient"]
    ]
    states = table(["states", "one gradient with Hessian", "a state"], lines, 0)
    return f"{many}\n{steps}\n{states}"


def gradient_growth(found: Results) -> float | None:
    """How many times longer a state takes at a million states than at ten thousand."""
    small, large = (at(found["curves"]["gradient"], states=n) for n in (10_000, 1_000_000))
    if small is None or large is None:
        return None
    return large["seconds"] / small["seconds"] * small["states"] / large["states"]


def cell_of(rows: list[dict[str, Any]], **wanted: Any) -> str:
    row = at(rows, **wanted)
    return duration(row["seconds"]) if row else "–"


def memory(found: Results) -> str:
    """What each solver adds to the process that holds the model."""
    rows = found["memory"]["rows"]
    blocks = []
    for task, peers in (("constrained", CONSTRAINED), ("unconstrained", UNCONSTRAINED)):
        lines = []
        for states in sorted({row["states"] for row in rows if row["task"] == task}):
            here = [at(rows, task=task, states=states, solver=s) for s in ("tacit", *peers)]
            held = mebibytes(here[0], "before_gib")
            lines.append([task, count(states), held, *(mebibytes(r, "added_gib") for r in here)])
        blocks.append(table(["task", "states", "held before", "tacit", *peers], lines))
    return "\n".join(blocks)


def mebibytes(row: dict[str, Any] | None, name: str) -> str:
    if row is None or name not in row:
        return "–"
    amount = 1024 * row[name]
    return f"{amount:.{0 if amount >= 10 else 1}f}{JOIN}MiB"


def explanation(found: Results) -> str:
    scale = found["explanation_scale"]
    lines = [
        [
            count(row["states"]),
            count(row["observed_steps"]) if "observed_steps" in row else "–",
            f"{row['intervals']}" if "intervals" in row else "–",
            duration(row["seconds"])
            if row["seconds"]
            else f"> {duration(scale['limit_seconds'] + scale['grace_seconds'])}, stopped",
            f"{row['peak_gib']:.2f} GiB" if row.get("peak_gib") else "–",
        ]
        for row in scale["rows"]
    ]
    said = (
        f"Largest state space tried with all intervals in under "
        f"{duration(scale['limit_seconds'])}: **{count(scale['largest_states_within_the_limit'])} "
        f"states**.\n\n"
    )
    return said + table(["states", "observed steps", "intervals", "time", "peak memory"], lines, 0)


def larger(found: Results) -> str:
    lines = [
        [
            row["name"],
            count(row["states"]),
            count(row["observed_steps"]),
            duration(row["seconds"]),
            row["status"],
        ]
        for row in found["larger_worlds"]["rows"]
        if row.get("seconds")
    ]
    return table(["world", "states", "observed steps", "time with intervals", "status"], lines)


def accelerator(found: Results) -> str:
    gpu, rows = found["gpu"], found["gpu"]["rows"]
    _, head = next(heads(gpu))
    lines = []
    for name in ("soft", "soft, largest"):
        row = rows[name]
        again = row["seconds"] if row["seconds"] != row["first_seconds"] else None
        lines.append(
            [
                f"soft CMDP, discount {row['discount']:g}",
                f"{count(row['states'])} states",
                duration(row["first_seconds"]),
                duration(again),
                f"{row['device_peak_gib']:.2f} GiB on the device",
            ]
        )
    row = rows["many recoveries"]
    first, after = duration(row["first_seconds"]), duration(row["seconds"])
    lines.append(["`Convex` on 5 x 5", f"{count(row['problems'])} problems", first, after, "–"])
    for name in ("likelihood 1e5", "likelihood 1e6"):
        if name in rows:
            row = rows[name]
            lines.append(
                [
                    f"`Likelihood`, {count(row['observed_steps'])} steps",
                    f"{count(row['states'])} states",
                    duration(row["first_seconds"]),
                    duration(row["seconds"]),
                    f"{row['host_peak_gib']:.2f} GiB on the host",
                ]
            )
    said = f"{gpu['device']}, JAX {head['versions']['jax']}.\n\n"
    head = ["work", "size", "first call, compiling", "after that", "peak memory"]
    return said + table(head, lines, 2)


def memory_limit(found: Results) -> str:
    """The physical limit on the CPU: every loop against the speed of the memory in the same run."""
    report = found["bandwidth"]
    copy, triad = (report["bytes_a_second"][name] / 1e9 for name in ("copy", "triad"))
    limit = max(report["bytes_a_second"].values())
    lines = [
        [
            row["work"],
            count(row["states"]),
            duration(row["bytes"] / limit),
            duration(row["seconds"]),
            f"{row['share']:.0%}",
        ]
        for row in report["rows"]
    ]
    said = (
        f"{report['machine']['cores']} cores copy {copy:.1f} GB/s and add two arrays into a third "
        f"at {triad:.1f} GB/s; the faster of the two is the limit.\n\n"
    )
    head = ["work", "states", "what the memory allows", "time", "share of the limit"]
    return said + table(head, lines)


def device_limit(found: Results) -> str:
    """The physical limit on the accelerator: bytes that must move, at the speed of a copy."""
    row = found["gpu"]["rows"]["bandwidth"]
    least = row["backup_bytes"] / row["copy_bytes_a_second"]
    return (
        f"One float64 soft backup at {count(row['states'])} states moves at least "
        f"{count(row['backup_bytes'] / 1e6)} MB. The device copies "
        f"{row['copy_bytes_a_second'] / 1e12:.2f} TB/s, measured in the same run: no backup can "
        f"take less than {duration(least)}. Ours takes {duration(row['backup_seconds'])}, which is "
        f"**{row['share_of_copy_bandwidth']:.0%} of the copy bandwidth**.\n"
    )


def same(found: Results) -> str:
    """The accelerator's answers against the CPU's."""
    row = found["gpu"]["rows"]["against the cpu"]
    errors = {name: error for name, error in row.items() if name != "states"}
    return table(
        ["answer", "largest relative difference"],
        [[name, f"{error:.0e}"] for name, error in errors.items()],
    )


def sharding(found: Results) -> str:
    """What each process of a split model holds."""
    if "sharding" not in found:
        return "No result file yet.\n"
    report, lines = found["sharding"], []
    for processes, group in report["jobs"].items():
        worst = max(row["solve_peak_mib"] for row in group)
        held = max(row["model_bytes"] for row in group) / 2**20
        slowest = max(row["first_solve_s"] for row in group)
        lines.append([processes, f"{held:.0f} MiB", f"{worst:.0f} MiB", duration(slowest)])
    head = ["processes", "model, a process", "peak over the start, a process", "solve, compiling"]
    said = f"{count(report['states'])} states, all processes on the cores of one machine.\n\n"
    return said + table(head, lines, 0)


# --------------------------------------------------------------------------------------------------
# Targets, sources, the page
# --------------------------------------------------------------------------------------------------


def judged(found: Results) -> list[tuple[str, str, str, bool]]:
    """(work, target, measured, reached) of every promise that a result file can judge."""
    bound = r"at most \1" if inherited(found) else r"\1"
    lines = [
        (
            t["work"],
            t["target"].replace(">=", "≥"),
            re.sub(r"([\d.]+ GiB)", bound, t["measured"]),
            t["reached"],
        )
        for t in found["forward"]["targets"]
    ]
    for row in found["mce_irl"]["rows"]:
        work = f"one gradient against imitation, {row['states']} states"
        lines.append((work, "≥ 20 times", f"{digits(row['ratio'])} times", row["ratio"] >= 20))
    for t in found["ingest"]["targets"]:
        work, _, target = t["target"].partition(": ")
        lines.append((f"reading ten million steps, {work}", target, t["measured"], t["reached"]))
    for row in found["recovery"]["rows"]:
        if row["name"] == "timing":
            seconds = row["best_of_5_seconds"]
            work = "one recovery with intervals, 25 states"
            lines.append((work, "< 0.2 s", duration(seconds), seconds < 0.2))
    times = gradient_growth(found)
    if times is not None:
        work = "one inverse gradient, time per state from 1e4 to 1e6"
        lines.append((work, "< 3 times", f"{times:.2f} times", times < 3))
    share = backup_share(found)
    work = "float64 soft backup, 1e6 states, on the CPU"
    lines.append((work, "≥ 30 % of the memory's speed", f"{share:.0%}", share >= 0.3))
    row = found["cpu"]["rows"]["likelihood 1e5"]
    seconds, peak = row["seconds"], row["host_peak_gib"]
    work = "`Likelihood` with errors, 1e5 states, 1e6 steps, on the CPU"
    taken = f"{duration(seconds)}, {peak:.2f} GiB"
    lines.append((work, "< 5 minutes, < 4 GiB", taken, seconds < 300 and peak < 4))
    return lines + accelerator_targets(found["gpu"])


def backup_share(found: Results) -> float:
    """Share of the memory's speed that the largest soft backup reaches."""
    rows = [row for row in found["bandwidth"]["rows"] if row["work"] == "backup"]
    return max(rows, key=lambda row: row["states"])["share"]


def accelerator_targets(gpu: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    device, rows = gpu["device"], gpu["rows"]
    soft, large, many = rows["soft"], rows["soft, largest"], rows["many recoveries"]
    share = rows["bandwidth"]["share_of_copy_bandwidth"]
    errors = [error for name, error in rows["against the cpu"].items() if name != "states"]
    ended = f"{duration(large['seconds'])}, {large['status'].lower()}"
    lines = [
        ("same answers as the CPU", "to 1e-9", f"to {max(errors):.0e}", max(errors) <= 1e-9),
        ("soft CMDP, 1e6 states, 0.99", "< 1 s", duration(soft["seconds"]), soft["seconds"] < 1),
        ("soft CMDP, 2.5e7 states", "done", ended, large["status"] == "CONVERGED"),
        (
            f"{count(many['problems'])} `Convex` recoveries",
            "< 60 s",
            duration(many["seconds"]),
            many["seconds"] < 60,
        ),
        ("float64 soft backup, 1e6 states", "≥ 40 % of copying", f"{share:.0%}", share >= 0.4),
    ]
    if "likelihood 1e6" in rows:
        row = rows["likelihood 1e6"]
        seconds, work = row["seconds"], "`Likelihood` with errors, 1e6 states, 1e6 steps"
        lines.append((work, "< 60 s", duration(seconds), seconds < 60))
    return [(f"{device}: {work}", *rest) for work, *rest in lines]


def targets(found: Results) -> str:
    lines = judged(found)
    said = f"{sum(line[3] for line in lines)} of {len(lines)} are reached.\n\n"
    words = [[work, goal, got, "yes" if ok else "**no**"] for work, goal, got, ok in lines]
    return said + table(["work", "target", "measured", "reached"], words, 4)


def sources(found: Results) -> str:
    """Where each number comes from: the command, the day, the machine."""
    lines = []
    for name in SOURCES:
        if name in found:
            for _, head in heads(found[name]):
                machine = head["machine"]
                load = machine.get("load_at_start")
                load = load[0] if isinstance(load, list) else load
                machine = f"{machine['cpu']}, {machine['cores']} cores" + (
                    f", load {load:.1f} at the start" if load is not None else ""
                )
                made = f"{head['date'][:10]}, {head.get('commit') or '–'}"
                line = [f"`{name}.json`", f"`{head['command']}`", made, machine]
                lines += [line] if line not in lines else []
    made = table(["file", "made by", "on, at commit", "machine"], lines, 4)
    versions = {"imitation": found["mce_irl"]["rows"][0]["imitation_version"]}
    versions = found["forward"]["versions"] | found["ingest"]["versions"] | versions
    peers = ", ".join(f"{name} {version}" for name, version in versions.items())
    _, head = next(heads(found["gpu"]))
    gpu = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    return f"{made}\nVersions: {peers}. On the GPU: {gpu}.\n"


SOURCES = (
    "forward", "bandwidth", "memory", "mce_irl", "recovery", "larger_worlds", "explanation_scale",
    "curves", "ingest", "partitions", "sharding", "cpu", "gpu",
)  # fmt: skip
BLOCKS: dict[str, Callable[[Results], str]] = {
    "targets": targets,
    "constrained": contest("constrained", CONSTRAINED),
    "unconstrained": contest("unconstrained", UNCONSTRAINED),
    "priced": contest("priced", UNCONSTRAINED),
    "faster": faster,
    "million": million,
    "memory": memory,
    "gradient": gradient,
    "larger": larger,
    "explanation": explanation,
    "growth": growth,
    "reading": reading,
    "partitions": partitions,
    "accelerator": accelerator,
    "memory-limit": memory_limit,
    "device-limit": device_limit,
    "same": same,
    "sharding": sharding,
    "sources": sources,
}


def filled(page: str, found: Results, blocks: dict[str, Callable[[Results], str]]) -> str:
    """The page with every block made anew, and the days of its result files below it."""

    def made(mark: re.Match[str]) -> str:
        record = Record(found)
        text = blocks[mark[2]](record)
        below = f"{origins(record.read, found)}\n\n" if mark[2] != "sources" else ""
        return f"{mark[1]}\n{text}\n{below}{mark[3]}"

    return MARKS.sub(made, page)


def dated(page: str, found: Results) -> str:
    """The page with the days of the result files that its marks name."""
    return MEASURED.sub(lambda m: f"{m[1]}\n{origins(m[2].split(), found)}\n\n{m[3]}", page)


def pages(found: Results) -> dict[Path, str]:
    """Every page of docs/, its blocks and days made anew from these results."""
    import reproduce_tables  # pyright: ignore[reportMissingImports]
    import scale_tables  # pyright: ignore[reportMissingImports]
    import stream_tables  # pyright: ignore[reportMissingImports]
    import trust_tables  # pyright: ignore[reportMissingImports]

    blocks = BLOCKS | scale_tables.BLOCKS | trust_tables.BLOCKS | reproduce_tables.BLOCKS
    blocks |= stream_tables.BLOCKS
    texts = {path: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {path: dated(filled(text, found, blocks), found) for path, text in texts.items()}


def main() -> None:
    for path, text in pages(results()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
