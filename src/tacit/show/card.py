"""The model card of a recovery: one page that goes along with it to people who were not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tacit
from tacit.data.demonstrations import Demonstrations
from tacit.data.measurements import Measurements
from tacit.estimators.kinds import KindsRecovery
from tacit.files.wording import capital, cell_text, listed
from tacit.inference.findings import OPEN, WARNINGS, Finding, Kind, of_kinds
from tacit.model.layout import Layout
from tacit.recovery import Recovery, RecoveryStatus
from tacit.show.fits import side_by_side
from tacit.show.quantities import numbers_of
from tacit.show.several import AnyRecovery, Parts
from tacit.show.summary import data_summary, row_summary
from tacit.show.tables import share

# What speaks of data and assumptions, rather than of the answer.
ASSUMED = (Kind.DECLARED, Kind.DATA, Kind.ASSUMED, Kind.TRUNCATED, Kind.CHOICE, Kind.ERRORS)
# Uses that no recovery supports, whatever its data.
NEVER = (
    "To say what the demonstrator ought to do, or that what it does is right or safe.",
    "To judge one person: weights are those of all demonstrations together.",
    "Where features mean something else, or where somebody else decides.",
    "To claim a cause: other rewards that rank ways of acting alike explain the same choices.",
)


def model_card(result: AnyRecovery, layout: Layout | None = None) -> str:
    """The card in Markdown: what it is, its data, assumptions, fit, and what it is not for."""
    layout = layout or Layout()
    parts = [*Parts.of(result, layout).recoveries.values()]
    findings = [*result.identification.findings] if len(parts) > 1 else []
    findings += [one for part in parts for one in part.identification.findings]
    findings = list(dict.fromkeys(findings))
    sections = {
        "What it is": _identity(result),
        "Data": _data(result, layout),
        "What it assumes": _assumptions(result, findings),
        "What was found": [
            *_numbers(result),
            "",
            *_items(of_kinds(findings, (Kind.ACTIVE, Kind.FORBIDDEN))),
        ],
        "Does it fit": _fit(result, findings, layout),
        "What it must not be used for": _items([*NEVER, *_limits(result, findings)]),
    }
    page = [f"# Model card: what {result.estimator or 'an unnamed estimator'} recovered"]
    for title, lines in sections.items():
        page += [f"## {title}", "\n".join(lines).strip()]
    return "\n\n".join(page) + "\n"


def _items(sentences: Sequence[str]) -> list[str]:
    return [f"- {sentence}" for sentence in sentences]


def _identity(result: AnyRecovery) -> list[str]:
    """What was recovered, by whom and when."""
    first: Recovery = result.parts[0]
    costs = len(first.cost_names)
    constraints = "no constraint" if not costs else f"{costs} possible constraint{'s'[: costs - 1]}"
    dates = [part.origin.date for part in result.parts if part.origin is not None]
    made = f" on {dates[0]} UTC" if dates else ""
    many = len(result.parts)
    kinds = f"{result.kind}s" if isinstance(result, KindsRecovery) else "tasks"
    several = f" Each of {many} {kinds} has an answer of its own." if many > 1 else ""
    sentence = (
        "A model of what a demonstrator wants and refuses, recovered from its behaviour (inverse "
        f"constrained reinforcement learning): weights of {len(first.reward_names)} reward "
        f"features, {constraints} with budgets and prices. Made by tacit {tacit.__version__}"
        f"{made}.{several}"
    )
    return [sentence]


def _data(result: AnyRecovery, layout: Layout) -> list[str]:
    """What the demonstrations were; only their number where they are not known any more."""
    origin = result.parts[0].origin
    facts: dict[str, Any] = {"steps": int(result.observed_steps)}
    seen = None if origin is None else origin.demonstrations
    if isinstance(seen, Measurements) and origin is not None:
        facts = dict(row_summary(origin.mdp.discount, seen))
    elif isinstance(seen, Demonstrations) and origin is not None:
        facts = dict(data_summary(origin.mdp, seen))
    elif units := result.parts[0].parameters.trajectories:
        facts["trajectories or individuals"] = units
    rows = [
        f"{capital(name.replace('_', ' '))}: {cell_text(value)}."
        for name, value in facts.items()
        if not isinstance(value, dict)
    ]
    if isinstance(groups := facts.get("groups"), dict):
        rows.append(f"Groups: {listed([f'{n} ({k})' for n, k in groups.items()], 12)}.")
    if layout.action_names:
        rows.append(f"Actions: {', '.join(layout.action_names[:12])}.")
    if seen is None:
        rows.append("The demonstrations are not kept with the model.")
    return _items(rows)


def _assumptions(result: AnyRecovery, findings: Sequence[Finding]) -> list[str]:
    """What the numbers rest on."""
    first: Recovery = result.parts[0]
    counted = first.identification.dynamics
    known = f"The dynamics are {counted.made}, and errors count that." if counted else (
        "The dynamics are taken for known."
    )  # fmt: skip
    sentences = [
        "The demonstrator chooses by the expected discounted reward less priced costs, with noise."
        if first.temperature > 0
        else "The demonstrator chooses what is best for it, without noise.",
        "Reward and costs are sums of these features alone: "
        + listed([*first.reward_names, *(n for part in first.cost_names for n in part)], 12)
        + ".",
        known,
        "Wishes and noise are the same throughout the data.",
    ]
    if first.lapses is not None:
        sentences.append(f"A share of the steps is random: {share(first.lapses.share)}.")
    errors = first.parameters
    sentences.append(
        f"There are no standard errors: {errors.reason}."
        if errors.reason
        else f"Standard errors are {errors.errors}"
        + (
            f", over {errors.trajectories} independent trajectories or individuals."
            if errors.errors == "clustered"
            else "."
        )
    )
    return _items([*sentences, *of_kinds(findings, ASSUMED)])


def _numbers(result: AnyRecovery) -> list[str]:
    """The coefficients or, where no noise gives them, weights and prices with their intervals."""
    if np.isfinite(result.parameters.estimates).any():
        return [side_by_side({"estimate (standard error)": result}).markdown()]
    rows = [
        f"{name}: {estimate}"
        for part in result.parts
        for name, estimate in numbers_of(part).items()
    ]
    return _items(rows)


def _fit(result: AnyRecovery, findings: Sequence[Finding], layout: Layout) -> list[str]:
    """Whether it describes what was seen."""
    lines = [f"Status: {result.status.value}."]
    if not isinstance(result, KindsRecovery):
        goodness = result.goodness
        sentence = goodness.sentence(layout.state_names, layout.action_names)
        lines += [one for one in (sentence, goodness.power_sentence()) if one]
    if np.isfinite(result.log_likelihood) and result.null_log_likelihood:
        rho = 1.0 - result.log_likelihood / result.null_log_likelihood
        lines.append(
            f"Log-likelihood {result.log_likelihood:.6g}; McFadden's rho squared {rho:.3f}."
        )
    warnings = of_kinds(findings, WARNINGS)
    told = [one for one in warnings if one.kind is not Kind.MISFIT and one not in lines]
    return _items([*lines, *told])


def _limits(result: AnyRecovery, findings: Sequence[Finding]) -> Iterator[str]:
    """What this recovery must not be used for, by its own numbers."""
    if result.status is not RecoveryStatus.CONVERGED:
        yield f"As the best answer there is: {result.status.value}."
    fits = [] if isinstance(result, KindsRecovery) else [result.goodness]
    for goodness in fits:
        if goodness.verdict == "misfit":
            yield "To read single numbers as wishes: the model does not fit what was seen."
        elif goodness.verdict == "untested":
            yield f"As a model that was tested: {goodness.absence}."
        elif goodness.verdict == "no power":
            yield "As a model that passed a test: the data are too few for a test to notice misfit."
    if any(part.parameters.reason for part in result.parts):
        yield "For statements of significance: there are no standard errors."
    for part in result.parts:
        for k, active in enumerate(part.identification.active.tolist()):
            if not active:
                names = listed(list(part.cost_names[k]), 6)
                yield f"To claim that constraint {k} ({names}) restrains: it was not shown to."
    for one in of_kinds(findings, OPEN):
        if one.kind is Kind.NOT_IDENTIFIED:
            yield f"For what the data leave open: {one[:1].lower()}{one[1:]}"
    for one in findings:
        if one.kind is Kind.ASSUMED and one.about.number:
            yield f"For places without data: {one[:1].lower()}{one[1:]}"
    yield "As proof that a policy keeps a budget: `recovery.certify(policy)` says what is proven."
