"""The tables of docs/trust.md.

python benchmarks/tables.py    # writes them into the page, with those of docs/performance.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tables import Results, table

Pairs = dict[str, dict[bool, dict[str, Any]]]  # expert -> with a constraint or without -> its row
SAID, BEST, TRUTH = "misfit_said", "coverage_of_best_approximation", "coverage_of_truth"
SHARES = {
    SAID: "misfit said",
    BEST: "best approximation held",
    TRUTH: "truth held",
    "not_settled": "not settled",
}
RATES = {
    "reward_weights": "intervals of reward weights hold",
    "reward_weights_where_dropped": "the same, where a constraint was left out",
    "cost_weights": "intervals of cost weights hold, where their constraint was found",
    "prices": "intervals of prices hold",
    "prices_where_dropped": "the same, where a constraint was left out",
    "prices_where_found": "intervals of prices hold, where their constraint was found",
    "false_alarms": "a constraint that does not exist is called active",
}


def percent(share: float) -> str:
    """Three digits: a rate of a few hundred draws has no more."""
    return f"{100 * share:.3g} %"


def both(shares: list[float]) -> str:
    """The rates of two prices."""
    return ", ".join(f"{share:.0%}" for share in shares)


def sizes(prices: list[float]) -> str:
    return ", ".join(f"{price:.3g}" for price in prices)


def zeros(found: Results) -> str:
    """Prices where most weights are 0, the temperature estimated and given."""
    report = found["zeros"]
    lines = [
        [
            f"{row['trajectories']}",
            both(row["prices_held"]),
            sizes(row["median_prices_over_temperature"]),
            both(row["prices_held_temperature_given"]),
            sizes(row["median_prices_temperature_given"]),
            sizes(report["truth"]),
        ]
        for row in report["rows"]
    ]
    estimated = ["price intervals that hold", "price over temperature, median"]
    given = ["temperature given: price intervals that hold", "price, median", "truth"]
    return table(["trajectories of 100 steps", *estimated, *given], lines)


def look_alikes(found: Results) -> str:
    """How often intervals of a weight hold beside an idle constraint that resembles it."""
    report = found["look_alikes"]
    idle = [row for row in report["rows"] if row["price"] == 0.0 and not row["robust"]]
    sizes = sorted({row["features"] for row in idle})
    held = {(row["similarity"], row["features"]): row["weight held"] for row in idle}
    lines = [
        [f"{near:g}", *(f"{held[near, size]:.1%}" for size in sizes)]
        for near in sorted({row["similarity"] for row in idle})
    ]
    weights, prices = report["summary"]["weights"], report["summary"]["prices"]
    head = ["similarity", *(f"{size} cost feature{'s' * (size > 1)}" for size in sizes)]
    plain = report["cliff"][0]  # without sampling weights
    missed = max(plain["wrong"][name] for name in ("reward", "edge", "price"))
    return table(head, lines) + (
        f"\nOver all {weights['cells']} cells, robust errors and a real constraint beside the idle "
        f"one included, {weights['mean']:.1%} (Monte Carlo error {weights['error']:.1%}); "
        f"prices {prices['mean']:.1%} ({prices['error']:.1%}). On a cliff from which nobody falls, "
        f"so that nothing tells the scale of the reward, intervals of its two coefficients and of "
        f"the price missed the truth in at most {missed} of {plain['draws']} draws each, and the "
        f"right model was said not to fit in {plain['wrong']['adequate']}.\n"
    )


def by_expert(report: dict[str, Any]) -> Pairs:
    pairs: Pairs = {}
    for row in report["rows"]:
        pairs.setdefault(row["expert"], {})[row["constraint"]] = row
    return pairs


def rates(report: dict[str, Any], *shares: str) -> str:
    """Rates of each expert, without a constraint and with one."""
    lines = [
        [expert, *(percent(pair[one][share]) for share in shares for one in (False, True))]
        for expert, pair in by_expert(report).items()
    ]
    head = [cell for share in shares for cell in (SHARES[share], "with a constraint")]
    return table(["expert", *head], lines)


def misfit(found: Results) -> str:
    """How often each expert is noticed, where features are of states and actions."""
    return rates(found["misfit"], SAID, BEST)


def misfit_of_states(found: Results) -> str:
    """The same where features are of states, and the experts that are hard to notice."""
    report = found["misfit-state"]
    hidden = [
        expert
        for expert, pair in by_expert(report).items()
        if expert != "right" and min(row[SAID] for row in pair.values()) < 0.8
    ]
    said = "Below 80 % in one of the two, so that a fit means little about them: "
    return f"{rates(report, SAID, BEST, TRUTH)}\n{said}{'; '.join(hidden)}.\n"


def misfit_of_counts(found: Results) -> str:
    """The same where the dynamics were counted."""
    return rates(found["misfit-counted"], SAID, "not_settled", BEST)


def coverage(found: Results) -> str:
    """How often intervals hold and tests err inside the model."""
    report = found["coverage"]
    draws = [row["draws"] for row in report["rows"]]
    lines = [
        [
            meant,
            f"{one['target']:.0%}",
            f"{one['mean']:.1%}",
            f"{one['error']:.1%}",
            f"{one['worst_share']:.1%}",
            f"{one['worst_draws']}",
            "yes" if one["reached"] else "**no**",
        ]
        for name, meant in RATES.items()
        for one in [report["verdicts"][name]]
    ]
    head = ["rate", "nominal", "mean", "Monte Carlo error", "worst setting", "draws there"]
    thin = {"constraints": 1, "strength": "weak", "trajectories": 5, "steps": 10}
    (row,) = [row for row in report["rows"] if thin.items() <= row.items()]
    (rate,) = row["rates"]["prices_where_found"]
    return (
        f"{len(draws)} settings, {min(draws)} to {max(draws)} draws each.\n\n"
        f"{table([*head, 'as it should be'], lines)}\n"
        "In 5 x 10 steps a price of a tenth of the reward is found in "
        f"{row['found']['mean']:.0%} of draws; its interval then holds in {rate['count']} of "
        f"{rate['draws']}, and over all draws in {row['prices']['mean']:.0%}.\n"
    )


def caution(found: Results) -> str:
    """True budgets that are broken in new worlds, by a plain and by a cautious objective."""
    lines = []
    for row in found["caution"]["rows"]:
        if row["trajectories"] == 60:
            plain, careful = row["recovered"], row["cautious, this world"]
            broken = [
                cell
                for one in (plain, careful)
                for cell in (
                    f"{round(one['broken'] * one['solved'])} of {one['solved']}",
                    f"{one['worst']:.1%}",
                )
            ]
            rewards = [f"{one['median_reward']:.2f}" for one in (plain, careful)]
            lines.append([f"{row['change']} ({row['draws']})", row["expert"], *broken, *rewards])
    head = ["broken, plain", "by at most", "broken, cautious", "by at most"]
    return table(["new world", "demonstrator", *head, "reward, plain", "cautious"], lines, 2)


BLOCKS: dict[str, Callable[[Results], str]] = {
    "zeros": zeros,
    "look-alikes": look_alikes,
    "misfit": misfit,
    "misfit-state": misfit_of_states,
    "misfit-counted": misfit_of_counts,
    "coverage": coverage,
    "caution": caution,
}
