"""`tacit simulate`: a built-in world and an expert seen in it become a problem folder."""

from __future__ import annotations

from tacit.cli.answer import Answer
from tacit.cli.simulate_arguments import Simulate
from tacit.cli.tables import Table
from tacit.worlds.world import World


def command(arguments: Simulate) -> Answer:
    """Makes the folder and says what is in it."""
    from tacit.folders.problem import Problem, refuse_taken
    from tacit.forward.column_generation import ColumnGeneration
    from tacit.forward.simulation import simulate
    from tacit.forward.soft_dual import SoftDual
    from tacit.forward.solve import solve

    refuse_taken(arguments.out)
    world = _world(arguments)
    noisy = arguments.temperature > 0
    solver = SoftDual(temperature=arguments.temperature) if noisy else ColumnGeneration()
    solution = solve(world.mdp, world.truth, solver=solver)
    seen = simulate(
        world.mdp,
        solution.policy,
        trajectories=arguments.trajectories,
        steps=arguments.steps,
        seed=arguments.seed,
    )
    problem = Problem(world.mdp, world.features, seen, world.truth, world.layout)
    problem.save(arguments.out, text=arguments.format == "text")
    data = {
        "problem": arguments.out,
        "world": repr(world),
        "states": world.mdp.states,
        "actions": world.mdp.actions,
        "constraints": world.truth.constraints,
        "discount": world.mdp.discount,
        "episodes": seen.episodes,
        "steps": seen.steps,
        "value": solution.value,
        "spent": solution.spent,
        "budgets": world.truth.budgets,
        "multipliers": solution.multipliers,
    }
    rows = [
        ["states", world.mdp.states],
        ["actions", world.mdp.actions],
        ["constraints", world.truth.constraints],
        ["episodes", seen.episodes],
        ["steps", seen.steps],
        ["expert", f"noisy, temperature {arguments.temperature:g}" if noisy else "optimal"],
    ]
    table = Table(["what", "value"], rows, f"{world}")
    return Answer([table, f"problem: {arguments.out} (next: tacit check {arguments.out})"], data)


def _world(arguments: Simulate) -> World:
    """The world that was named, with the options that were given."""
    from tacit import worlds

    if arguments.kind == "gymnasium":
        return worlds.gymnasium(arguments.world, **arguments.asked)
    if arguments.kind == "published-figure":
        return worlds.published_figure(**arguments.asked)
    make = worlds.hill_grid if arguments.kind == "hill-grid" else worlds.random
    return make(arguments.seed, **arguments.asked)
