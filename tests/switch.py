"""Two states, by hand: stay (0) or switch (1), from state 0.

Being in state 1 pays 1, staying there costs 1. Never going there earns 0; staying there earns 1 and
spends 1; going to and fro earns 2/3 and spends nothing. A budget of 1/2 mixes the last two: 5/6, at
a price of 1/3. At that price staying in state 1 pays 2/3: to go there is worth 2/3, to wait 1/3;
once there both actions tie.
"""

import numpy as np

import tacit

TWO = tacit.MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [1, 0], 0.5)
TRUTH = tacit.Objective([0, 1], [[[0, 0], [1, 0]]], [0.5])
PRICED = np.array([[0, 0], [2 / 3, 1]])
# What these three visit, and the expert.
NEVER = np.array([[2.0, 0], [0, 0]])
STAYS = np.array([[0, 1.0], [1, 0]])
TO_AND_FRO = np.array([[0, 4 / 3], [0, 2 / 3]])
EXPERT = (STAYS + TO_AND_FRO) / 2  # visits of 7/6 and 5/6; stays in state 1 with chance 3/5


def shaping(mdp: tacit.MDP, potential: np.ndarray) -> np.ndarray:
    """[S, A] discount * E[potential(s')] - potential(s)."""
    return mdp.discount * mdp.dense() @ potential - potential[:, None]
