"""A recovered objective trains an agent of another library: PPO of stable-baselines3, priced.

    PATH/python benchmarks/agents.py

stable-baselines3 needs torch and lives in an environment of its own, whose Python is PATH (tacit on
its path as well). An expert walks the paper's grid within its budget; tacit recovers the pair of
reward and cost from its steps; the exported environment pays and charges by it. PPO gets the reward
less the price times the cost, and the price follows what is spent beyond the budget: thirty lines,
no safe-learning library. What the trained policy earns and spends is computed exactly, beside the
best that any policy within the budget earns. Writes benchmarks/results/agents.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

import tacit
from provenance import about


@dataclass(frozen=True)
class Args:
    """Train a constrained agent on a recovered objective."""

    rounds: int = 40
    """Rounds of training; after each the price is set anew."""
    steps: int = 4096
    """Steps of each round."""
    seed: int = 0
    out: Path = Path(__file__).parent / "results" / "agents.json"


class Priced(gymnasium.Wrapper):
    """The exported environment as an agent sees it: which cell, and the reward less the charge."""

    def __init__(self, env: gymnasium.Env, prices: np.ndarray, scale: float):
        super().__init__(env)
        self.prices, self.scale = prices, scale
        self.cells = env.observation_space.n
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (self.cells,), np.float32)

    def seen(self, state: int) -> np.ndarray:
        return np.eye(self.cells, dtype=np.float32)[state]

    def reset(self, *, seed=None, options=None):
        state, info = self.env.reset(seed=seed, options=options)
        return self.seen(state), info

    def step(self, action):
        state, reward, terminated, truncated, info = self.env.step(int(action))
        priced = self.scale * (reward - self.prices @ info["costs"])
        return self.seen(state), float(priced), terminated, truncated, info


def policy_of(model: PPO, states: int) -> np.ndarray:
    """[S, A] what the agent does in each state."""
    with torch.no_grad():
        found = model.policy.get_distribution(torch.eye(states))
    return found.distribution.probs.numpy().astype(float)


def worth(
    mdp: tacit.MDP, objective: tacit.Objective, policy: np.ndarray
) -> tuple[float, np.ndarray]:
    """Value, and what is spent [K], of a policy, exactly."""
    reward, costs = objective.tables(mdp)
    from tacit.forward.solution import visitation

    visits = visitation(mdp, policy / policy.sum(axis=1, keepdims=True))
    return float((visits * reward).sum()), np.array([(visits * cost).sum() for cost in costs])


def main(args: Args) -> None:
    world = tacit.worlds.hill_grid(seed=1, tightness=0.5)
    expert = tacit.solve(world.mdp, world.truth, solver=tacit.SoftDual(temperature=0.05))
    seen = tacit.simulate(world.mdp, expert.policy, trajectories=200, steps=200, seed=args.seed)
    recovery = tacit.recover(world.mdp, world.features, seen, throw=False)
    objective, mdp = recovery.objective, world.mdp
    best = tacit.solve(mdp, objective)
    env = tacit.export.environment(mdp, objective, layout=world.layout, max_steps=60)
    scale = 1.0 / max(np.ptp(objective.reward), 1e-12)  # rewards of order 1, as PPO likes them
    priced = Priced(env, best.multipliers.copy(), scale)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy", priced, gamma=mdp.discount, seed=args.seed, n_steps=2048, batch_size=256,
        n_epochs=15, learning_rate=1.5e-3, ent_coef=0.0, gae_lambda=0.9,
        policy_kwargs={"net_arch": [64]}, device="cpu",
    )  # fmt: skip
    kept, rows = None, []
    for turn in range(args.rounds):
        model.learn(args.steps, reset_num_timesteps=False)
        policy = policy_of(model, mdp.states)
        value, spent = worth(mdp, objective, policy)
        within = bool((spent <= 1.05 * objective.budgets).all())
        if within and (kept is None or value > kept[0]):
            kept = value, spent
        rows.append({"value": value, "spent": spent.tolist(), "prices": priced.prices.tolist()})
        # The price rises while too much is spent, and falls while there is room.
        excess = spent / objective.budgets - 1.0
        priced.prices = np.maximum(priced.prices * np.exp(0.5 * excess), 1e-3 * best.multipliers)
        print(turn, round(value / best.value, 3), (spent / objective.budgets).round(3), flush=True)
    uniform = worth(mdp, objective, np.full((mdp.states, mdp.actions), 1.0 / mdp.actions))
    result = about(["tacit-irl", "stable-baselines3", "torch", "gymnasium", "numpy"]) | {
        "value_of_the_best": best.value,
        "budgets": objective.budgets.tolist(),
        "share_of_the_best": None if kept is None else kept[0] / best.value,
        "share_of_the_budget": None if kept is None else (kept[1] / objective.budgets).tolist(),
        "random_actions": {"share_of_the_best": uniform[0] / best.value,
                           "share_of_the_budget": (uniform[1] / objective.budgets).tolist()},
        "rounds": rows,
    }  # fmt: skip
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({k: v for k, v in result.items() if k not in ("rounds", "modules")}, indent=1))


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
