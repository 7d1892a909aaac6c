"""What `tacit recover` asks after the fit: doubt about dynamics, holdout, discounts, groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.cli.recover_arguments import Recover
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.data.demonstrations import Demonstrations
    from tacit.folders.problem import Problem
    from tacit.inverse.recovery import Recovery

# Draws of estimated transitions, unless told otherwise, and the state-action pairs up to which they
# cost little.
DRAWS, SMALL = 20, 5000


def widened(
    arguments: Recover, problem: Problem, seen: Demonstrations, recovery: Recovery, estimator: Any
) -> Recovery:
    """The recovery, its intervals widened by the doubt about transitions that were estimated."""
    mdp, draws = problem.mdp, arguments.dynamics_draws
    if draws is None:
        draws = DRAWS if mdp.states * mdp.actions <= SMALL else 0
    if mdp.evidence is None or draws == 0:
        return recovery
    from tacit.checks.dynamics import dynamics_uncertainty
    from tacit.engine.progress import unwatched

    options: dict[str, Any] = {"draws": max(draws, 2), "seed": arguments.seed}
    task = (mdp, problem.features, seen)
    try:
        with unwatched():
            return dynamics_uncertainty(
                *task, estimator=estimator, recovery=recovery, **options
            ).recovery
    except TacitError as error:
        known = recovery.identification
        said = f"Intervals take the estimated transitions for known: {error}."
        return replace(recovery, identification=replace(known, findings=(said, *known.findings)))


def extras(
    arguments: Recover, problem: Problem, seen: Demonstrations, recovery: Recovery, estimator: Any
) -> dict[str, Any]:
    """Further results by name, each a stage of its own."""
    from tacit.engine.progress import once, unwatched
    from tacit.folders.runs import plain

    mdp, features = problem.mdp, problem.features
    asked: dict[str, Any] = {}
    if arguments.holdout > 0:

        def held_out() -> Any:
            from tacit.checks.held_out import holdout

            return holdout(
                mdp,
                features,
                seen,
                estimator=estimator,
                share=arguments.holdout,
                seed=arguments.seed,
                recovery=recovery,
            )

        asked["holdout"] = held_out
    if arguments.discount_grid:

        def profiled() -> Any:
            from tacit.checks.discounts import discount_profile

            grid = arguments.discount_grid
            return discount_profile(mdp, features, seen, grid, estimator=estimator)

        asked["discount_profile"] = profiled
    if arguments.groups:

        def tested() -> Any:
            from tacit.checks.groups import equal_weights_test
            from tacit.inverse.noisy.likelihood import Likelihood

            chosen = estimator if isinstance(estimator, Likelihood) else None
            return equal_weights_test(mdp, features, seen, estimator=chosen, seed=arguments.seed)

        asked["groups"] = tested

    def computed(ask: Any) -> Any:
        with unwatched():
            return plain(ask(), arrays=True)

    return {name: once(name, lambda ask=ask: computed(ask)) for name, ask in asked.items()}
