"""The page on trust says what its result files say, and shows what they draw."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


def results(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def test_every_failure_has_its_picture():
    for name, rows in results("trust")["studies"].items():
        assert f"figures/trust-{name}.svg" in PAGE
        drawn = (ROOT / "docs" / "figures" / f"trust-{name}.svg").read_text(encoding="utf-8")
        for side in ("before", "after"):
            held = sum(row[side][1] <= row["truth"] <= row[side][2] for row in rows)
            # Words are drawn as text: the count in the title is that of the file.
            assert f"{held} of {len(rows)} hold" in drawn, (name, side)


def test_tables_are_those_of_the_files():
    found = results("zeros")
    for row in found["rows"]:
        held = ", ".join(f"{share:.0%}" for share in row["prices_held"])
        assert f"| {row['trajectories']} | {held} |" in PAGE
        assert min(row["prices_held"]) >= 0.9
    for row in results("caution")["rows"]:
        if row["trajectories"] == 60:
            plain, careful = row["recovered"], row["cautious, this world"]
            told = f"| {row['expert']} | {round(plain['broken'] * plain['solved'])} of "
            told += f"{plain['solved']} | {plain['worst']:.1%} | "
            told += f"{round(careful['broken'] * careful['solved'])} of {careful['solved']} |"
            assert f"| {row['change']} ({row['draws']}) {told}" in PAGE
