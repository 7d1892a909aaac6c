"""The numbers of docs/scale.md: what was measured, and the model on paper that rests on it.

    python benchmarks/tables.py    # writes them into the page, with those of docs/performance.md

Measured are bytes and seconds a state (`sharding.json`, `gpu.json`). Assumed are the network and
how a search is made up; both are said on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]

# What a Krylov step moves of each state: two products of 76 bytes, about twenty passes over 8.
STEP_BYTES = 310
# Of the network between devices, and of the memory of one.
LINK, SUM_SECONDS, MESSAGE_SECONDS, DEVICE_GIB = 50e9, 20e-6, 10e-6, 139
# Sums over all devices, messages and products in one Krylov step.
SUMS, MESSAGES, PRODUCTS = 4, 4, 2
JOBS = ((1e8, 8), (1e9, 16), (1e9, 64))  # states, devices


@dataclass(frozen=True)
class Model:
    """What one state takes, from the measurements."""

    bytes_a_state: float
    bytes_a_table: float
    seconds_a_state: float
    steps: float

    @classmethod
    def of(cls, found: Results) -> Model:
        """The model that these result files support."""
        rows = found["gpu"]["rows"]
        large, speed = rows["soft, largest"], rows["bandwidth"]["copy_bytes_a_second"]
        seconds = large["search_seconds"] / large["states"]
        few, many = (together(row) for row in on_most_devices(found))
        tables = [row["features"] for row in on_most_devices(found)]
        return cls(
            large["device_peak_gib"] * 2**30 / large["states"],
            (many - few) / (tables[1] - tables[0]),
            seconds,
            seconds * speed / STEP_BYTES,
        )


def on_most_devices(found: Results) -> list[dict[str, Any]]:
    """Bytes a state of the compiled search on the most devices, by the number of tables."""
    rows = found["sharding"]["small_bytes_a_state"]
    most = max(row["devices"] for row in rows)
    return sorted((r for r in rows if r["devices"] == most), key=lambda r: r["features"])


def together(row: dict[str, Any]) -> float:
    return row["arguments"] + row["temporary"] + row["results"]


def processes(found: Results) -> str:
    """What each process of a split model holds, beside a small grid of the same kind."""
    report = found["sharding"]
    lines, grown, prices = [], [], []
    for number, group in report["jobs"].items():
        peak = max(row["solve_peak_mib"] for row in group)
        grown.append(peak - max(row["solve_peak_mib"] for row in report["small_jobs"][number]))
        prices.append(group[0]["multiplier"])
        held = max(row["model_bytes"] for row in group) / 1e6
        cells = [number, f"{held:.0f} MB", f"{peak:.0f} MiB", f"{grown[-1]:.0f} MiB"]
        lines.append("| " + " | ".join([*cells, f"{prices[-1]:.9f}"]) + " |")
    small = [max(r["solve_peak_mib"] for r in group) for group in report["small_jobs"].values()]
    border = next(iter(report["small_simulated"].values()))["border"]
    apart = max(abs(p / prices[0] - 1) for p in prices)
    waits = [group[0]["solve_s"] for group in report["small_jobs"].values()]
    head = (
        f"A grid of {spaced(report['states'])} states made by rows, "
        f"{report['machine']['cores']} cores, loopback:\n\n"
        "| processes | transitions held by each | peak memory of a solve, each | of that, beyond a "
        f"grid of {spaced(report['small_states'])} states | price |\n|---|---|---|---|---|\n"
    )
    devices = " and ".join(report["small_simulated"])
    said = (
        f"\n\nPeaks are above an idle process. The small grid has what compiling takes, "
        f"{min(small):.0f} to {max(small):.0f} MiB, so the last but one column is roughly what "
        f"grows with the states: {grown[-1] / grown[0]:.2f} times as much in each of "
        f"{list(report['jobs'])[-1]} processes as in one alone. Prices agree to {apart:.0e}. On "
        f"{devices} simulated devices a product of the small grid sends two messages of {border} "
        "values a device, one row of the grid each, whatever the number of states.\n\n"
        f"Times are in the file, and say little about a cluster: all processes shared "
        f"{report['machine']['cores']} cores. They do say that messages cost: the solve of the "
        f"small grid took {waits[0]:.1f} s in one process and {waits[-1]:.1f} s in "
        f"{list(report['small_jobs'])[-1]}. Do not split what fits.\n"
    )
    return head + "\n".join(lines) + said


def compiled_bytes(found: Results) -> str:
    """What the compiled search holds for every state."""
    rows = on_most_devices(found)
    head = (
        f"What the compiled search holds for every state, on {rows[0]['devices']} devices (bytes, "
        "CPU program):\n\n| tables | arguments | temporary | results | together |\n"
        "|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {r['features']} | {r['arguments']:.0f} | {r['temporary']:.0f} | {r['results']:.0f} | "
        f"{together(r):.0f} |\n"
        for r in rows
    )


def one_device(found: Results) -> str:
    """What one accelerator did, alone."""
    rows = found["gpu"]["rows"]
    speed, million, large = rows["bandwidth"], rows["soft"], rows["soft, largest"]
    return (
        f"On one {found['gpu']['device'].removeprefix('NVIDIA ')} "
        "(`benchmarks/results/gpu.json`, not split): copy bandwidth "
        f"{speed['copy_bytes_a_second'] / 1e12:.2f} TB/s; a soft backup of a million states "
        f"{1e6 * speed['backup_seconds']:.0f} µs, {speed['share_of_copy_bandwidth']:.0%} of that "
        f"bandwidth; the soft constrained search at discount {large['discount']:g}, without moving "
        f"the model there and without the certificate, {million['search_seconds']:.2f} s at 1e6 "
        f"states and {large['search_seconds']:.1f} s at 2.5e7, with a peak of "
        f"{large['device_peak_gib']:.1f} GiB, "
        f"{Model.of(found).bytes_a_state:.0f} bytes a state.\n"
    )


def foundations(found: Results) -> str:
    """What the model on paper rests on."""
    model, rows = Model.of(found), found["gpu"]["rows"]
    speed = rows["bandwidth"]["copy_bytes_a_second"]
    smaller = rows["soft"]["search_seconds"] / rows["soft"]["states"]
    large = rows["soft, largest"]
    return (
        f"- Memory: {model.bytes_a_state:.0f} bytes a state with one constraint, from the H200, "
        f"though not split there. Each further table adds {model.bytes_a_table:.0f} bytes, the "
        "difference between the rows of the table above: "
        f"{model.bytes_a_state + 19 * model.bytes_a_table:.0f} bytes for 10 + 10 features. An H200 "
        f"has {DEVICE_GIB} GiB.\n"
        f"- Work: {large['search_seconds']:.1f} s / 2.5e7 = {1e6 * model.seconds_a_state:.2f} µs a "
        "state, as many states at a time as there are devices. It was "
        f"{1e6 * smaller:.2f} µs at 1e6 states: the number of steps hangs on the discount, not on "
        "the size.\n"
        f"- Steps: a Krylov step reads and writes some {STEP_BYTES} bytes a state (two products of "
        f"76, about twenty passes over a vector), {1e12 * STEP_BYTES / speed:.0f} ps at "
        f"{speed / 1e12:.2f} TB/s. So {1e6 * model.seconds_a_state:.2f} µs are at most "
        f"{spaced(model.steps, 2)} steps.\n"
        f"- Network, assumed: {LINK / 1e9:.0f} GB/s to each device (400 Gbit/s), "
        f"{1e6 * SUM_SECONDS:.0f} µs for a sum over all devices, {1e6 * MESSAGE_SECONDS:.0f} µs "
        "for a message to a neighbour.\n"
    )


def on_paper(found: Results) -> str:
    """Memory and time of models that no machine here can hold."""
    model, rows = Model.of(found), []
    features = model.bytes_a_state + 19 * model.bytes_a_table

    def add(name: str, cell: Callable[[float, int], str]) -> None:
        rows.append([name, *(cell(states, devices) for states, devices in JOBS)])

    def gib(bytes_each: float) -> Callable[[float, int], str]:
        def cell(states: float, devices: int) -> str:
            held = bytes_each * states / devices / 2**30
            return f"{held:.2g} GiB" if held <= DEVICE_GIB else f"{held:.0f} GiB: does not fit"

        return cell

    def work(states: float, devices: int) -> float:
        return model.seconds_a_state * states / devices

    def latency(states: float) -> float:
        border = 8 * states**0.5 / LINK
        return model.steps * (SUMS * SUM_SECONDS + MESSAGES * (MESSAGE_SECONDS + border))

    def gathering(states: float, devices: int) -> float:
        whole = PRODUCTS * 8 * states / LINK
        return work(states, devices) + model.steps * (SUMS * SUM_SECONDS + whole)

    add("memory a device, one constraint", gib(model.bytes_a_state))
    add("memory a device, 10 + 10 features", gib(features))
    add("work", lambda s, d: f"{work(s, d):.2g} s")
    add(
        "border of a square grid, one row",
        lambda s, d: f"{8e-3 * s**0.5:.0f} kB, {8e6 * s**0.5 / LINK:.0f} µs",
    )
    add(
        f"{spaced(model.steps, 2)} steps of {SUMS} sums and {MESSAGES} messages",
        lambda s, d: f"{latency(s):.2g} s",
    )
    add("**search with borders**", lambda s, d: f"**{work(s, d) + latency(s):.2g} s**")
    add(
        "everything: to each device, a product",
        lambda s, d: f"{8e-9 * s:.2g} GB, {8e3 * s / LINK:.0f} ms",
    )
    add("**search gathering everything**", lambda s, d: f"**{gathering(s, d) / 60:.2g} min**")
    head = ["", *(f"{states:.0e} states, {devices} devices" for states, devices in JOBS)]
    head = [cell.replace("e+0", "e") for cell in head]
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def spaced(number: float, digits: int = 9) -> str:
    """A whole number in groups of three, rounded to so many digits."""
    return f"{float(f'{number:.{digits}g}'):,.0f}".replace(",", " ")


BLOCKS: dict[str, Callable[[Results], str]] = {
    "processes": processes,
    "compiled-bytes": compiled_bytes,
    "one-device": one_device,
    "foundations": foundations,
    "on-paper": on_paper,
}
