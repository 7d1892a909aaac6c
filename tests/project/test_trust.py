"""The page on trust says what its result files say, and shows what they draw."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def test_what_is_said_of_coverage_is_in_the_files():
    found = results("coverage")
    text = PAGE[PAGE.index("Inside the model, in") : PAGE.index("Prices are another matter")]
    for name, one in found["verdicts"].items():
        assert one["reached"], (name, one)  # what the page says
        numbers = f"{one['target']:.0%} | {one['mean']:.1%} | {one['error']:.1%}"
        assert f"| {numbers} | {one['worst_share']:.1%} | {one['worst_draws']} |" in text, name
    assert len(re.findall(r"\| \d+% \|", text)) == len(found["verdicts"])
    draws = [row["draws"] for row in found["rows"]]
    assert f"in {len(draws)} settings" in text
    assert f"{min(draws)} to {max(draws)} draws each" in text
    thin = {"constraints": 1, "strength": "weak", "trajectories": 5, "steps": 10}
    (row,) = [row for row in found["rows"] if thin.items() <= row.items()]
    (rate,) = row["rates"]["prices_where_found"]
    assert f"found in {row['found']['mean']:.0%}" in spaced(PAGE)
    assert f"holds in {rate['count']} of {rate['draws']}" in PAGE
    assert f"over all draws it holds in {row['prices']['mean']:.0%}" in spaced(PAGE)


def test_what_is_said_of_misfit_is_in_the_files():
    rows = {(row["expert"], row["constraint"]): row for row in results("misfit")["rows"]}
    for expert in {name for name, _ in rows}:
        pair = [rows[expert, constrained] for constrained in (False, True)]
        said = [f"{100 * row['misfit_said']:.3g} %" for row in pair]
        held = [f"{100 * row['coverage_of_best_approximation']:.3g} %" for row in pair]
        assert f"| {expert} | {' | '.join(said + held)} |" in PAGE
        assert all(0.9 <= row["coverage_of_best_approximation"] <= 0.99 for row in pair)
    state = results("misfit-state")["rows"]
    for row in state:
        held = row["coverage_of_best_approximation"], row["coverage_of_truth"]
        assert f"| {row['expert']} | " in PAGE
        assert all(f"{100 * share:.3g} %" in PAGE for share in (row["misfit_said"], *held))
    low = {row["expert"] for row in state if row["misfit_said"] < 0.8} - {"right"}
    (said,) = [line for line in PAGE.splitlines() if line.startswith("Below 80 % in one")]
    assert all(name in said for name in low)
    counted = results("misfit-counted")
    many = counted["settings"]["draws"]
    each = {(row["expert"], row["constraint"]): row for row in counted["rows"]}

    def total(expert, name):
        return round(sum(many * each[expert, one][name] for one in (False, True)))

    wrong, seen = "discount 0.3 for 0.9", total("discount 0.3 for 0.9", "misfit_said")
    quiet, right = 2 * many - seen, 2 * many - total("right", "misfit_said")
    hidden = total(wrong, "not_settled")
    assert f"noticed in {seen} of {2 * many}" in PAGE
    assert f"in {hidden} of the other {quiet} draws" in PAGE
    assert f"in {total('right', 'not_settled')} of the {right} with the right expert" in PAGE
    assert f"In the last {quiet - hidden} nothing is said" in PAGE
    held = [row["coverage_of_best_approximation"] for row in counted["rows"]]
    assert f"in {100 * min(held):.3g} to {100 * max(held):.3g} % for all kinds" in PAGE
    assert each["optimal, 20 % at random", False]["coverage_of_best_approximation"] > 0.94


def spaced(text: str) -> str:
    return text.replace(" %", "%")
