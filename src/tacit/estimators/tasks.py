"""Several tasks at once: the constraint is what all of them have in common.

Tasks share cost directions, and reward directions if told so; multipliers, budgets and temperatures
are their own. First every task is fitted alone, which is one convex problem each; then jointly with
shared directions, from there; and it is tested whether the tasks agree on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from tacit.data.observed import Observed
from tacit.errors import InvalidModel
from tacit.estimators.assembly import several
from tacit.estimators.joint_recovery import AGREEMENT_LEVEL, JointRecovery, least_fitting
from tacit.estimators.likelihood import Likelihood
from tacit.estimators.setting import StepsSetting
from tacit.estimators.strength import Strength, strength_of
from tacit.estimators.task import Task
from tacit.estimators.tasks_report import (
    goodness_of_tasks,
    joint_findings,
    numbers_of_tasks,
    task_recovery,
    what_is_shared,
)
from tacit.inference.activity import ScoreLaw, Verdict, holm_levels
from tacit.inference.boundary import Directions, ratio_p_value
from tacit.inference.diagnostics import Goodness
from tacit.inference.dynamics_noise import dynamics_noise
from tacit.inference.evidence import evidence_of, score_law
from tacit.inference.findings import Finding
from tacit.inference.idle_constraints import Restraint, without_idle_constraints
from tacit.inference.information import scatter_of
from tacit.inference.parameters import inverse_information
from tacit.inference.standardised import standards_of
from tacit.likelihood.problem import Equalities, Fit, LikelihoodProblem
from tacit.likelihood.protocol import LARGEST
from tacit.likelihood.rescue import VISIBLE, rescued
from tacit.likelihood.start import OF_COEFFICIENTS, Bounds, maximum, within_temperature
from tacit.likelihood.steps import StepsChain, information
from tacit.likelihood.ties import UNSIZED, Tie, Ties
from tacit.model.features import Sparse
from tacit.model.features.design import Design
from tacit.model.objective import coefficient_names
from tacit.recovery import delivered
from tacit.search.algebra import largest_first


@dataclass(frozen=True)
class SharedLikelihood:
    """Maximum likelihood of several tasks whose cost weights are the same, up to a size each.

    Attributes:
        share_reward: whether the tasks share the reward weights too.
        share_temperature: whether they share the temperature as well, with the reward.
        likelihood: how each task is fitted, and the level of the tests.
    """

    share_reward: bool = False
    share_temperature: bool = False
    likelihood: Likelihood = field(default_factory=Likelihood)

    def fit(self, tasks: Iterable[Task], *, throw: bool = True) -> JointRecovery:
        """The `JointRecovery` under which the observed actions of all tasks are most likely."""
        chosen = tuple(tasks)
        return delivered(self.report(chosen, self.search(chosen)), throw)

    def check(self) -> None:
        """Raises `InvalidModel` unless the options make sense."""
        if not isinstance(self.likelihood, Likelihood):
            kind = type(self.likelihood).__name__
            raise InvalidModel(f"tasks are fitted by a Likelihood each; got {kind}")
        self.likelihood.check()
        if self.likelihood.lapses is not False:
            raise InvalidModel(
                "the fit of several tasks must be without lapses: how much a step counts would "
                "then depend on what its task is thought to share, and tests of what tasks share "
                "must compare fits of the same steps"
            )
        if isinstance(self.likelihood.prior, Sparse):
            raise InvalidModel(
                "the fit of several tasks must be without a sparse prior: it makes numbers small, "
                "and tasks share weights up to a size each: smaller weights with a larger size are "
                "the same answer"
            )
        if self.share_temperature and not self.share_reward:
            raise InvalidModel("tasks that share the temperature must share the reward")

    def search(self, tasks: Sequence[Task]) -> TaskFits:
        """The fits and tests of these tasks."""
        _check(tasks, self)
        likelihood = self.likelihood
        each = [self.of_task(task) for task in tasks]
        settings = [StepsSetting(task.mdp, task.features, task.demonstrations) for task in tasks]
        chains = [task.chain(own) for task, own in zip(tasks, each, strict=True)]
        strengths = [strength_of(*parts) for parts in zip(each, settings, chains, strict=True)]
        chains = with_priors(strengths, chains)
        fits = [maximum(chain, own) for chain, own in zip(chains, each, strict=True)]
        if likelihood.temperature is not None:
            known = likelihood.temperature, likelihood.max_steps
            fits = [within_temperature(fitted, *known) for fitted in fits]
        tried = [rescued(fitted, VISIBLE, likelihood.max_steps) for fitted in fits]
        own = [fitted for fitted, _ in tried]
        shape = shaped(each, [fit.problem.chains[0] for fit in own])
        shape = with_noise_of(own, shape)
        z = np.concatenate([fit.z for fit in own])
        # The search of every task has been made: this one only puts them side by side.
        order = np.concatenate(shape.ties.rows)
        place = np.zeros(len(z))
        place[order] = z
        steps = max(fit.steps for fit in own)
        alone = Fit.of(shape, place, [fit.parts[0] for fit in own], steps, likelihood.tolerance)
        seen = [task.demonstrations for task in tasks]
        ridged = np.array([boundless for _, boundless in tried])
        found = _together(self, each, own, alone, seen, ridged)
        return replace(found, strengths=tuple(strengths))

    def report(self, tasks: Sequence[Task], found: TaskFits) -> JointRecovery:
        """The `JointRecovery` of these fits."""
        seen, joint, fits = [task.demonstrations for task in tasks], found.joint, found.goodness
        evidence = evidence_of(seen, joint, self.likelihood.max_steps, robust=found.robust)
        standards = standards_of([(task.mdp, task.features) for task in tasks])
        numbers = numbers_of_tasks(found, evidence, seen)
        if not all(one.uniform for one in standards):
            scaled = numbers_of_tasks(found, evidence, seen, [one.stacked for one in standards])
            pairs = zip(scaled, found.chains, strict=True)
            known = [one.identification(chain.space, verdict=None) for one, chain in pairs]
            standards = [own.knowing(one) for own, one in zip(standards, known, strict=True)]
        recoveries = [
            task_recovery(self, task, found, numbers[e], evidence, fits[e], standards[e], e)
            for e, task in enumerate(tasks)
        ]
        worst, own = least_fitting(fits), tuple(one.reward_weights for one in recoveries)
        misfit = [
            Finding(f"Task {worst}: {said}", said.kind, **asdict(said.about))
            for said in fits[worst].findings()
        ]
        findings = misfit + joint_findings(found, evidence, tasks[0])
        return several(
            JointRecovery,
            recoveries,
            joint,
            converged=joint.converged,
            proven=joint.problem.proven,
            history={
                "loss": [found.alone.loss, joint.loss],
                "evaluations": [found.alone.steps, joint.steps],
            },
            recoveries=tuple(recoveries),
            reward_weights=own[joint.problem.ties.leaders[0]] if self.share_reward else own,
            cost_weights=tuple(recoveries[e].cost_weights[k] for k, e in enumerate(found.speakers)),
            identification=what_is_shared(self, found, recoveries, findings),
            estimator=repr(self),
            agreement=np.asarray(found.agreement, dtype=np.float64),
        )

    def of_task(self, task: Task) -> Likelihood:
        """How this task is fitted: bounds and the like that name coefficients of its own."""
        names = coefficient_names(task.features.reward_names, task.features.cost_names)
        asked = {word: getattr(self.likelihood, word) for word in OF_COEFFICIENTS}
        own = {
            word: {one: given[one] for one in given if not isinstance(one, str) or one in names}
            for word, given in asked.items()
        }
        return replace(self.likelihood, **own)


def shared_likelihood(
    estimator: Likelihood | SharedLikelihood | None, share_reward: bool
) -> SharedLikelihood:
    """The estimator of several tasks that was asked for, by that of one where it is one's."""
    chosen = SharedLikelihood() if estimator is None else estimator
    if isinstance(chosen, Likelihood):
        chosen = SharedLikelihood(likelihood=chosen)
    if not isinstance(chosen, SharedLikelihood):
        raise InvalidModel(
            "several tasks are recovered by Likelihood or SharedLikelihood; "
            f"got {type(chosen).__name__}"
        )
    return replace(chosen, share_reward=True) if share_reward else chosen


def _check(tasks: Sequence[Task], options: SharedLikelihood) -> None:
    """Raises `InvalidModel` unless the tasks can share what they are told to share."""
    if not tasks:
        raise InvalidModel("tasks must hold at least one Task; got none")
    for e, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise InvalidModel(f"tasks must be Task objects; task {e} is {type(task).__name__}")
    options.check()
    if options.likelihood.restrict:
        raise InvalidModel(
            "restrict is about the coefficients of one task; several are tied by what they share: "
            f"leave it out; got {options.likelihood.restrict!r:.60}"
        )
    first = tasks[0].features
    for e, task in enumerate(tasks[1:], start=1):
        if task.features.cost_names != first.cost_names:
            raise InvalidModel(
                "tasks share cost weights, so they must have the same cost features; "
                f"task 0 has {first.cost_names}, task {e} has {task.features.cost_names}"
            )
        if options.share_reward and task.features.reward_names != first.reward_names:
            raise InvalidModel(
                "tasks that share reward weights must have the same reward features; "
                f"task 0 has {first.reward_names}, task {e} has {task.features.reward_names}"
            )
    _check_names(tasks, options.likelihood)
    for task in tasks:
        _check_shared(Design.of(task.mdp, task.features), options, options.of_task(task))


def _check_names(tasks: Sequence[Task], options: Likelihood) -> None:
    """Raises `InvalidModel` where a coefficient is named that no task has."""
    maps = [task.features for task in tasks]
    known = {name for f in maps for name in coefficient_names(f.reward_names, f.cost_names)}
    for word in OF_COEFFICIENTS:
        for name in getattr(options, word):
            if isinstance(name, str) and name not in known:
                raise InvalidModel(f"{word} must be of coefficients of a task; got {name!r:.60}")


def _check_shared(space: Design, options: SharedLikelihood, own: Likelihood) -> None:
    """Raises `InvalidModel` where a bound on a shared direction is not the same for all tasks."""
    known, kinds = Bounds.of(space, own), ties_of(options, space)
    for block, tie in zip(space.blocks, kinds, strict=True):
        ends = np.concatenate([known.lower[block], known.upper[block]])
        inner = (ends != 0.0) & (np.abs(ends) < LARGEST)
        if tie is Tie.DIRECTION and inner.any():
            name = (2 * space.names[block])[int(inner.argmax())]
            raise InvalidModel(
                f"a bound or value other than 0 for {name} binds every task differently: a "
                "coefficient of a shared direction is the weight times the task's own size, and "
                "one linear bound on it is none on the weight; share_temperature, with the reward, "
                "makes the sizes of the reward one"
            )


# Tasks whose own direction is tried as a start, the clearest first.
STARTS = 3
# A task's size, relative to the task that speaks most clearly.
LARGEST_SIZE = 1e3


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskFits:
    """What was fitted, and what the tests between the fits say.

    Attributes:
        alone: every task by itself, with every constraint.
        joint: all together, without the constraints that were not shown to be active.
        boundless: [E] bool, the tasks whose likelihood has no maximum, so that a ridge was taken.
        restrained: [K, E] bool, whether each constraint was kept in each task.
        verdict: of the tests of "this constraint restrains no task", one a constraint.
        sizes: [K, E] p-values of "it does not restrain this task"; NaN where not tested.
        agreement: [1 + K] p-values of "the tasks share this direction"; NaN where not tested.
        goodness: one per task, whether the model fits it.
        strengths: one per task, the strength of its prior; None for none.
    """

    alone: Fit
    joint: Fit
    boundless: np.ndarray
    restrained: np.ndarray
    verdict: Verdict
    sizes: np.ndarray
    agreement: np.ndarray
    goodness: tuple[Goodness, ...]
    strengths: tuple[Strength | None, ...]

    @property
    def robust(self) -> bool:
        """Whether the model does not fit a task, so that errors and tests are sandwich ones."""
        return not all(one.adequate for one in self.goodness)

    @property
    def chains(self) -> tuple[StepsChain, ...]:
        """The likelihoods, task by task."""
        return self.joint.problem.chains

    @property
    def speakers(self) -> list[int]:
        """[K] a task that each constraint restrains: the leader, if it does."""
        chosen = []
        leaders = self.joint.problem.ties.leaders[1:]
        for kept, leader in zip(self.restrained, leaders, strict=True):
            chosen.append(leader if kept[leader] or not kept.any() else int(kept.argmax()))
        return chosen


def with_priors(strengths: Sequence[Strength | None], chains: Sequence[Any]) -> list[Any]:
    """The chains of tasks with the penalties of their priors."""
    pairs = zip(strengths, chains, strict=True)
    return [chain if one is None else one.on(chain) for one, chain in pairs]


def shaped(
    options: Sequence[Likelihood],
    chains: Sequence[StepsChain],
    kinds: Sequence[Tie] | None = None,
    leaders: Sequence[int] | None = None,
) -> LikelihoodProblem:
    """The likelihood of these chains with such ties, within the bounds that the options ask for."""
    ties = Ties.of([chain.space for chain in chains], kinds, leaders)
    lower, upper = np.zeros(len(ties.names)), np.full(len(ties.names), LARGEST_SIZE)
    for e, chain in enumerate(chains):
        known = Bounds.of(chain.space, options[e])
        rows, leads = ties.rows[e], ties.sizes[e] == UNSIZED
        unit = ties.factors[e][leads]
        most = known.upper[leads]
        lower[rows[leads]] = known.lower[leads] / unit
        upper[rows[leads]] = np.where(most < LARGEST, most / unit, LARGEST)
    return LikelihoodProblem(chains=tuple(chains), ties=ties, lower=lower, upper=upper)


def with_noise_of(alone: Sequence[Fit], problem: LikelihoodProblem) -> LikelihoodProblem:
    """The problem in which the noise of every task is what it is in its own fit, if it is known.

    Where the reward is the same in all tasks it is known once.
    """
    ties, rows, values, norms = problem.ties, [], [], []
    for e, fitted in enumerate(alone):
        known = fitted.problem.equalities
        if known is None or (ties.kinds[0] is Tie.SAME and e != ties.leaders[0]):
            continue
        norms += [True] * len(known.values)
        for row, value in zip(known.matrix, known.values, strict=True):
            joint = np.zeros(len(ties.names))
            joint[ties.rows[e]] = row * ties.factors[e]
            rows.append(joint)
            values.append(value)
    if not rows:
        return problem
    known = Equalities(matrix=np.array(rows), values=np.array(values), norms=np.array(norms))
    return replace(problem, equalities=known)


def ties_of(options: SharedLikelihood, space: Design) -> list[Tie]:
    """One per block, as the options say; one cost feature has no direction to share."""
    # A reward that is shared, in units of a noise that is known, is the same.
    noise = options.share_temperature or options.likelihood.temperature is not None
    shared = Tie.SAME if noise else Tie.DIRECTION
    sizes = [block.stop - block.start for block in space.blocks[1:]]
    costs = [Tie.DIRECTION if size > 1 else Tie.OWN for size in sizes]
    return [shared if options.share_reward else Tie.OWN, *costs]


def _together(
    options: SharedLikelihood,
    each: Sequence[Likelihood],
    own: Sequence[Fit],
    alone: Fit,
    seen: Sequence[Observed],
    boundless: np.ndarray,
) -> TaskFits:
    """The joint fit from the tasks alone, less what the tests drop, and the tests of the ties."""
    likelihood, chains = options.likelihood, alone.problem.chains
    space, every = chains[0].space, range(len(chains))
    kinds, clarity = ties_of(options, space), _clarity(alone)
    leaders = clarity.argmax(axis=1).tolist()
    fits = goodness_of_tasks(alone, seen, level=likelihood.level, seed=likelihood.seed)
    robust = not all(one.adequate for one in fits)
    rules = {
        "level": likelihood.level,
        "steps": sum(float(chain.counts.sum()) for chain in chains),
        "max_steps": likelihood.max_steps,
        "seed": likelihood.seed,
        "scattered": robust or any(chain.mdp.evidence is not None for chain in chains),
    }

    def law_of(less: Fit) -> ScoreLaw | None:
        about = {"size": int(less.free.sum()), "robust": robust, "seed": likelihood.seed}
        return score_law(less, seen, **about)

    anywhere = [Restraint(k, tuple(every)) for k in range(space.constraints)]
    _, idle, verdict = without_idle_constraints(alone, anywhere, law_of, **rules)
    restrained = np.ones((len(anywhere), len(every)), bool)
    restrained[list(idle)] = False

    def tied(kinds: Sequence[Tie]) -> LikelihoodProblem:
        problem = with_noise_of(own, shaped(each, chains, kinds, leaders))
        for k in range(space.constraints):
            without = np.flatnonzero(~restrained[k]).tolist()
            problem = problem.without(1 + k, without) if without else problem
        return problem

    order = largest_first(clarity.sum(axis=0)).tolist()[:STARTS]
    joint = _best(alone, tied(kinds), order, likelihood.max_steps)
    steered = [
        Restraint(k, (e,))
        for k in range(space.constraints)
        for e in every
        if joint.problem.steering(1 + k, e).any()
    ]
    about = {**rules, "groups": (range(len(steered)),)}
    _, idle, of_sizes = without_idle_constraints(joint, steered, law_of, **about)
    sizes = np.full(restrained.shape, np.nan)
    for number, (one, p_value) in enumerate(zip(steered, of_sizes.p_values, strict=True)):
        sizes[one.constraint, one.chains] = p_value
        restrained[one.constraint, one.chains] = number not in idle
    if idle:
        joint = joint.refit(tied(kinds), max_steps=likelihood.max_steps).completed
    agreement = np.full(len(kinds), np.nan)
    sharing = np.append(len(chains), restrained.sum(axis=1)) > 1
    if joint.problem.penalised:
        sharing[:] = False
    tested = [b for b, tie in enumerate(kinds) if tie is not Tie.OWN and sharing[b]]
    levels = holm_levels(AGREEMENT_LEVEL, len(tested))
    for b in tested:
        apart = [Tie.OWN if other == b else own for other, own in enumerate(kinds)]
        agreement[b] = _p_agreement(joint, tied(apart), seen, likelihood, levels, robust)
    return TaskFits(
        alone=alone,
        joint=joint,
        boundless=boundless,
        restrained=restrained,
        verdict=verdict,
        sizes=sizes,
        agreement=agreement,
        goodness=tuple(fits),
        strengths=(None,) * len(chains),
    )


def _clarity(alone: Fit) -> np.ndarray:
    """[1 + K, E] how many squared standard errors each block of each task is away from 0."""
    ties = alone.problem.ties
    found = np.zeros((len(ties.kinds), len(alone.parts)))
    for e, fisher in enumerate(own_information(alone)):
        free, own = alone.free[ties.rows[e]], alone.x(e)
        for b, block in enumerate(ties.blocks[e]):
            others = free.copy()
            others[block] = False
            inverse, _ = inverse_information(fisher, others)
            x = np.zeros(len(fisher))
            x[block] = own[block]
            found[b, e] = x @ (fisher - fisher @ inverse @ fisher) @ x
    return found


def _best(alone: Fit, problem: LikelihoodProblem, order: Sequence[int], max_steps: int) -> Fit:
    """The best joint fit from several starts: the leaders' directions, then each task's own."""
    own, ties = [alone.x(e) for e in range(len(alone.parts))], problem.ties
    starts = [ties.start(own)]
    if problem.bilinear:
        starts += [ties.start(ties.pointing(own, e)) for e in order]
    rules = {"tolerance": alone.tolerance, "max_steps": max_steps}
    fits = [problem.minimum(z, alone.parts, **rules) for z in starts]
    return min(fits, key=lambda fitted: fitted.loss).completed


def _p_agreement(
    narrow: Fit,
    wide: LikelihoodProblem,
    seen: Sequence[Observed],
    options: Likelihood,
    levels: np.ndarray,
    robust: bool,
) -> float:
    """The p-value of the ties that `wide` does without; `robust` where the model does not fit."""
    z = wide.start(wide.ties.start([narrow.x(e) for e in range(len(narrow.parts))]))
    rules = {"tolerance": narrow.tolerance, "max_steps": options.max_steps}
    loose = wide.minimum(z, narrow.parts, **rules)
    ratio, fishers = 2.0 * (narrow.loss - loose.loss), own_information(narrow)
    before, after = directions(wide, z), directions(narrow.problem, narrow.z)
    bread, scatter = after.information(fishers), None
    if robust:
        scatter = _own_scatter(narrow, seen, int(before.free.sum()))
    about = {"information": bread, "free": after.free, "seed": options.seed}
    by_chain = dynamics_noise(narrow, narrow.evidence(seen), **about)
    if by_chain is not None:
        own = block_diag(*fishers) if scatter is None else scatter
        scatter = by_chain.noise.attenuation**2 * (own + by_chain.chain_scores)
    about = {"levels": levels, "seed": options.seed, "scatter": scatter}
    return ratio_p_value(ratio, fishers, before, after, **about)


def _own_scatter(fitted: Fit, seen: Sequence[Observed], size: int) -> np.ndarray:
    """[N, N] scatter of the scores of all chains, each in its own parameters."""
    problem = fitted.problem
    edges = np.cumsum([len(rows) for rows in problem.ties.rows])
    inner = np.split(np.eye(edges[-1]), edges[:-1])
    each = zip(problem.chains, fitted.parts, inner, seen, strict=True)
    chains = [chain.evidence(part, own, observed) for chain, part, own, observed in each]
    scatter = scatter_of(chains, size, robust=True).scatter
    assert scatter is not None
    return scatter


def own_information(fitted: Fit) -> list[np.ndarray]:
    """One [D, D] per chain: the information of its steps about its own parameters."""
    problem, found = fitted.problem, []
    for e, (chain, part) in enumerate(zip(problem.chains, fitted.parts, strict=True)):
        own = information(chain.scores(part), part.policy, chain.visits)
        if problem.equalities is not None:
            rows = problem.equalities.matrix[:, problem.ties.rows[e]] / problem.ties.factors[e]
            rows = rows[(rows != 0).any(axis=1)]
            own = own + Equalities(matrix=rows, values=np.zeros(len(rows))).information(own)
        found.append(own)
    return found


def directions(problem: LikelihoodProblem, z: np.ndarray) -> Directions:
    """Where the joint parameters may move from z [n]."""
    return Directions(
        [problem.ties.jacobian(e, z) for e in range(len(problem.chains))],
        (z > problem.lower) & (z < problem.upper),
        problem.movable & (z <= problem.lower),
    )
