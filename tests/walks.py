"""Demonstrations on a small grid for tests of runs: of an optimal expert and of a noisy one."""

from functools import cache

import tacit


@cache
def seen_by() -> dict[str, tuple[tacit.MDP, tacit.Features, tacit.Demonstrations]]:
    """ "exact" and "noisy" -> (world, features, demonstrations)."""
    world = tacit.worlds.hill_grid(0, tightness=0.5)
    found = {}
    for name, solver in (("exact", None), ("noisy", tacit.SoftDual(temperature=0.1))):
        policy = tacit.solve(world.mdp, world.truth, solver=solver).policy
        walks = tacit.simulate(world.mdp, policy, trajectories=20, steps=40, seed=0)
        found[name] = (world.mdp, world.features, walks)
    return found


def problem(kind: str) -> tacit.runs.Problem:
    """The same as a `Problem`."""
    return tacit.runs.Problem(*seen_by()[kind])
