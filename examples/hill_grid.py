"""Solves the paper's grid with a binding budget, walks it, and draws what happened.

python examples/hill_grid.py --out demo
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import tyro

import tacit

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@dataclass(frozen=True)
class Args:
    """One draw of the grid."""

    out: Path = Path("demo")
    """folder for the figure"""
    seed: int = 0
    """draw of the grid, and of the walks"""
    size: int = 5
    """side of the grid"""
    tightness: float = 0.5
    """where the budget lies: 0 the least achievable cost, 1 the cost of an unconstrained optimum"""


def main(args: Args) -> None:
    world = tacit.worlds.hill_grid(seed=args.seed, size=args.size, tightness=args.tightness)
    solution = tacit.solve(world.mdp, world.truth)
    walks = tacit.simulate(world.mdp, solution.policy, trajectories=100, steps=200, seed=args.seed)
    reward, costs = world.truth.tables(world.mdp)
    grid = world.layout.grid

    panels = {
        "reward of each cell, in thousandths": grid(1000 * reward[:, 0]),
        "cost of each cell": grid(costs[0, :, 0]),
        "visitation and policy": grid(solution.visitation.sum(axis=1)),
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    for axis, (title, table) in zip(axes, panels.items(), strict=True):
        draw(axis, title, table)
    draw_arrows(axes[2], world.layout, solution.policy, panels["visitation and policy"])
    figure.suptitle(
        f"budget {world.truth.budgets[0]:.3f}, spent {solution.spent[0]:.3f}, "
        f"multiplier {solution.multipliers[0]:.3g}, value {solution.value:.4g}, "
        f"duality gap {solution.certificate.duality_gap:.0e}"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "hill_grid.png", dpi=150)
    print(f"status: {solution.status.value}")
    print(f"{walks}")
    print(f"drawn:  {args.out / 'hill_grid.png'}")


def ink(table: np.ndarray) -> np.ndarray:
    """The colour that can be read on each cell of a dark-to-bright table."""
    return np.where(table > (table.min() + table.max()) / 2, "black", "white")


def draw(axis, title: str, table: np.ndarray) -> None:
    """Colours, with the number in the lower half of every cell."""
    axis.set(title=title, xticks=range(table.shape[1]), yticks=range(table.shape[0]))
    axis.imshow(table, cmap="cividis")
    for (row, column), colour in np.ndenumerate(ink(table)):
        number = f"{table[row, column]:.2g}"
        axis.text(column, row + 0.33, number, ha="center", va="center", color=colour)


def draw_arrows(axis, layout: tacit.worlds.Layout, policy: np.ndarray, table: np.ndarray) -> None:
    """One arrow for each action taken with a probability above 1 %, which is its length."""
    colours = ink(table)
    for state, action in np.argwhere(policy > 0.01):
        row, column = layout.cell(state)
        half = 0.22 * policy[state, action] * np.array(layout.directions[action])
        axis.annotate(
            "",
            xy=(column + half[1], row - 0.15 + half[0]),
            xytext=(column - half[1], row - 0.15 - half[0]),
            arrowprops={"arrowstyle": "->", "color": colours[row, column], "linewidth": 1.5},
        )


if __name__ == "__main__":
    main(tyro.cli(Args))
