"""A large model on a CPU: the same linear maps, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.forward.chains import chain_solve, policy_chain
from tacit.forward.kernels.soft_backup import fused_backup
from tacit.mdp import MDP
from tacit.threads import row_blocks, side_by_side


class Host:
    """The linear maps of one model on NumPy arrays; algorithms run step by step."""

    arrays = np
    direct = False

    def __init__(self, mdp: MDP) -> None:
        self._mdp = mdp

    def while_loop(self, going: Any, step: Any, state: Any) -> Any:
        """The state after repeating `step` while `going`."""
        while going(state):
            state = step(state)
        return state

    def select(self, condition: Any, new: Any, old: Any) -> Any:
        """`new` if the condition holds, else `old`."""
        return new if condition else old

    def expected_next(self, values: Any) -> Any:
        """[..., S, A] expected value of the next state, for values [..., S]."""
        if values.ndim == 1:
            return self._mdp.expected_next(values)
        later = np.empty((len(values), self._mdp.states, self._mdp.actions))

        def one(d: int) -> None:
            later[d] = self._mdp.expected_next(values[d])

        side_by_side(one, range(len(values)))
        return later

    def inflow(self, table: Any) -> Any:
        """[S] what flows into each state."""
        return self._mdp.inflow(table)

    def soft_backup(
        self, discount: Any, temperature: Any, reward: Any, values: Any
    ) -> tuple[Any, Any]:
        """[S] soft values after one backup, and [S, A] the Boltzmann policy."""
        backed, policy = np.empty(self._mdp.states), np.empty(np.shape(reward))
        layout = self._mdp.layout
        model = (layout.states, layout.probabilities, float(discount), float(temperature))
        side_by_side(
            lambda rows: fused_backup(
                *model, reward, values, backed, policy, rows.start, rows.stop
            ),
            row_blocks(self._mdp.states),
        )
        return backed, policy

    def solve(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[..., S] the values x of the policy's chain: x = right + discount * P x."""
        return self._solved(policy, right, target, guess, transposed=False)

    def solve_transposed(
        self, policy: Any, discount: Any, right: Any, target: Any, *, guess: Any = None
    ) -> Any:
        """[S] the visits x of the policy's chain: x = right + discount * P' x."""
        return self._solved(policy, right, target, guess, transposed=True)

    def linear_solve(self, matrix: Any, right: Any) -> Any:
        """The x of matrix x = right [n, ...], for a small matrix."""
        return np.linalg.solve(matrix, right)

    def _solved(
        self, policy: Any, right: Any, target: Any, guess: Any, *, transposed: bool
    ) -> np.ndarray:
        chain = policy_chain(self._mdp, policy)
        if right.ndim == 1:
            return chain_solve(
                self._mdp, *chain, right, transposed=transposed, target=target, guess=guess
            )

        def one(d: int) -> np.ndarray:
            near = None if guess is None else guess[d]
            return chain_solve(
                self._mdp, *chain, right[d], transposed=transposed, target=target[d], guess=near
            )

        solved = side_by_side(one, range(len(right)))
        return np.stack(solved) if solved else np.empty(right.shape)
