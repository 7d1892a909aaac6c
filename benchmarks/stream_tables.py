"""The tables of docs/watch.md and docs/continuous.md.

python benchmarks/tables.py    # writes them into the page, with those of docs/performance.md
"""

from __future__ import annotations

from collections.abc import Callable

from tables import Results, count, duration, table

NAMES = {
    "price": "a price doubles",
    "noise": "half the noise",
    "goal": "another reward",
    "outside": "chances that no objective gives",
}
WORLDS = {"known": "the world is known", "counted": "counted from 5 000 steps"}


def alarms(found: Results) -> str:
    """Delays after a change, beside a CUSUM that knows the truth, and which number was blamed."""
    lines = [
        [
            NAMES[what],
            f"{row['median_delay']:.0f}",
            f"{row['delay_90']:.0f}",
            f"{row['cusum_median_delay']:.0f}",
            f"{row['missed']} of {row['streams']}",
            f"{row['blamed_right']:.0%}",
        ]
        for what, row in found["stream"]["alarms"]["changes"].items()
    ]
    head = ["change", "steps to the alarm, median", "in 90 % at most", "CUSUM that knows the truth"]
    return table([*head, "missed", "right number blamed"], lines)


def rows(found: Results) -> str:
    """Recoveries of rows without a table, over drawn logs of known truth."""
    lines = [
        [
            world,
            count(row["rows"]),
            str(row["draws"]),
            f"{row['relative_error']:.2f}",
            f"{sum(row['coverage']) / len(row['coverage']):.2f}",
            f"{min(row['coverage']):.2f}",
            f"{row['right_models_rejected']:.2f}",
            duration(row["seconds"]),
        ]
        for world, row in found["continuous"]["worlds"].items()
    ]
    head = ["world", "rows", "draws", "relative error", "95 % intervals that hold", "worst one"]
    return table([*head, "right models called wrong", "a recovery"], lines)


def promises(found: Results) -> str:
    """What is promised, and what was measured."""
    report = found["stream"]
    always, needed, sure = (report[name] for name in ("anytime", "needed", "certified"))
    rows, large, quiet = report["updates"]["rows"], report["large"], report["alarms"]["quiet"]
    worst = max(row["largest_difference"] for row in rows)
    ours, theirs = (
        duration(sum(row[name] for row in rows) / len(rows))
        for name in ("update_seconds", "refit_seconds")
    )
    lines = []
    for name, row in quiet.items():
        length = f"at least {row['mean_run_length_at_least']:.0f}"
        alarms = f"{row['alarms']} alarms in {row['streams']} streams of {row['steps']} steps"
        what, promised = f"run length, {WORLDS[name]}", f"{report['alarms']['promised']} steps"
        lines.append([what, promised, f"{length}: {alarms}"])
    share, wide = always["verdict"]["mean"], always["median_width_over_fixed_time"]
    kept = f"{share:.0%} of {always['verdict']['draws']} streams; {wide:.2f} times as wide"
    lines.append([f"the truth is in the set at all of {always['looks']} looks", "95 %", kept])
    right = f"{needed['within_1.5']:.0%} of {needed['draws']}"
    lines.append(["`more_needed` is right within a factor of 1.5", "80 %", right])
    right = f"{needed['in_its_interval']:.0%} of {needed['draws']}"
    lines.append(["it is in the interval that is told", "80 %", right])
    broken = f"{sure['verdict']['mean']:.1%} of {sure['certified']}"
    lines.append(["a policy certified at 95 % breaks the true budget", "at most 5 %", broken])
    many = sum(row["batches"] for row in rows)
    lines.append(
        ["an update is the refit", "", f"within {worst:.0e} standard errors, {many} times"]
    )
    lines.append(["seconds of an update beside a refit, 50 000 steps", "", f"{ours}, {theirs}"])
    ours, theirs = (duration(large[name]) for name in ("update_seconds", "refit_seconds"))
    lines.append(["the same, a million steps", "", f"{ours}, {theirs}"])
    return table(["what", "promised", "measured"], lines, 3)


BLOCKS: dict[str, Callable[[Results], str]] = {"alarms": alarms, "rows": rows, "promises": promises}
