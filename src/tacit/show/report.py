"""What the report says on top, in plain words, from numbers and from the kinds of findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.estimators.forbidden.sentences import record_findings
from tacit.estimators.logged.recovery import LoggedRecovery
from tacit.estimators.trips.traveller import TripsRecovery
from tacit.files.wording import capital
from tacit.inference.findings import OPEN, WARNINGS, Finding, Kind, chance, listed, of_kinds
from tacit.inference.sets import HardConstraint
from tacit.model.layout import Layout
from tacit.recovery import Recovery, RecoveryStatus
from tacit.search.algebra import first_largest, largest_first
from tacit.show import Headline, Tone
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import interval_words, share, short

NAMED = 3  # features, states or sentences that are named before the rest is counted
NOISY = 2.0  # times the sampling noise: a gap beyond it is not chance
LOOSE = 0.5  # width of the interval of the heaviest weight beyond which shares are not settled
LITTLE = 0.005  # a weight below it is not worth a word
FIT = "Does the model fit?"
FINDINGS = "Guarantees and findings"  # the section that holds them all


def headlines(
    named: NamedRecovery,
    notes: Sequence[str] = (),
    answers: Mapping[str, Sequence[str]] | None = None,
) -> list[Headline]:
    """What was found, in plain words, most important first.

    Args:
        named: what was recovered.
        notes: what was assumed.
        answers: question of a check -> the sentences that answer it.
    """
    recovery, misfit = named.recovery, misfit_headlines(named)
    heads = _character(named)
    if recovery.forbidden and recovery.available is not None:
        heads.append(_never(named))
    elif not named.constraints and not isinstance(recovery, TripsRecovery):
        heads.append(Headline("Nothing was asked: the problem names no costs.", "What it refuses"))
    heads.append(_agreement(named))
    # That the model does not fit is said above, with the names of state and action.
    known = [(one.kind, one.about) for one in recovery.goodness.findings()]
    findings = recovery.identification.findings
    findings = [one for one in findings if (one.kind, one.about) not in known]
    warnings = warning_headlines(findings, WARNINGS)
    # What does not fit comes before all that is read from it; the rest after that.
    place = 0 if of_kinds(findings, [Kind.MISFIT]) else len(heads)
    heads[place:place] = warnings
    heads += [Headline(" ".join(said), name) for name, said in (answers or {}).items() if said]
    heads.append(_open(named))
    if notes:
        label = "What was assumed"
        heads.append(first_sentences(notes, label, Tone.PLAIN, label))
    return [*misfit, *heads]


def _character(named: NamedRecovery) -> list[Headline]:
    """What one wants and refuses, and at what price."""
    constraints = range(named.constraints)
    prices = [_price(named, k) for k in constraints if named.identified[k]]
    return [_wants(named), *(_refuses(named, k) for k in constraints), *prices]


def character(named: NamedRecovery, label: str) -> Headline:
    """What one of several wants and refuses, and at what price, as one headline."""
    heads = _character(named)
    doubtful = next((one for one in heads if one.verdict), Headline(""))
    text = " ".join(one.text for one in heads)
    detail = " ".join(one.detail for one in heads if one.detail)
    return Headline(text, label, doubtful.verdict, doubtful.tone, detail=detail)


def warning_headlines(
    findings: Iterable[Finding], kinds: Sequence[Kind], label: str = "Warnings"
) -> list[Headline]:
    """The findings of these kinds under one label, if there are any."""
    sentences = [capital(one) for one in of_kinds(findings, kinds)]
    return [first_sentences(sentences, label, Tone.CAUTION)] if sentences else []


def fit_headline(named: NamedRecovery, start: str = "") -> Headline:
    """Whether the model fits, with the names of states and actions, after some words."""
    goodness, layout = named.recovery.goodness, named.layout
    text = start + goodness.sentence(layout.state_names, layout.action_names)
    if goodness.absence:
        return Headline(text, FIT, "not tested", Tone.CAUTION)
    verdict = ("yes", Tone.GOOD) if goodness.adequate else ("no", Tone.CAUTION)
    return Headline(text, FIT, *verdict)


def misfit_headlines(named: NamedRecovery) -> list[Headline]:
    """That the model does not fit, where it does not: before anything is read from it."""
    goodness, head = named.recovery.goodness, fit_headline(named)
    if goodness.absence and named.recovery.parameters.weighted:
        return [replace(head, text=f"{head.text} All numbers are those of the weighted steps.")]
    return [] if goodness.adequate else [head]


def first_sentences(
    sentences: Sequence[str], label: str, tone: Tone, section: str = FINDINGS
) -> Headline:
    """The first sentences, and where the others stand."""
    rest = len(sentences) - NAMED
    detail = f"{rest} more under “{section}” below." if rest > 0 else ""
    return Headline(" ".join(sentences[:NAMED]), label, tone=tone, detail=detail)


def _wants(named: NamedRecovery) -> Headline:
    recovery, label = named.recovery, "What it wants"
    weights, ends = recovery.reward_weights, recovery.identification.reward_intervals
    if not np.isfinite(weights).all():
        text = "Nothing that these demonstrations show: no reward is needed to explain them."
        return Headline(text, label, "not identified", Tone.CAUTION)
    avoided = weights < -LITTLE
    texts = []
    if not avoided.any() or (weights > LITTLE).any():
        texts.append(_listed("It wants", recovery.reward_names, weights))
    if avoided.any():
        texts.append(_listed("It wants less of", recovery.reward_names, -weights))
    # What weighs more is said first.
    text = " ".join(texts[::-1] if weights[weights < 0].sum() < -0.5 else texts)
    detail = _ranges(named, recovery.reward_names, weights, ends)
    return _weighed(text, label, detail, is_loose=_is_loose(ends, weights))


def _weighed(text: str, label: str, detail: str, *, is_loose: bool) -> Headline:
    """A headline about weights, whose shares may not be settled."""
    verdict = ("not settled", Tone.CAUTION) if is_loose else ("", Tone.PLAIN)
    return Headline(text, label, *verdict, detail=detail)


def _refuses(named: NamedRecovery, k: int) -> Headline:
    """What one constraint refuses, or why that cannot be told."""
    recovery, known = named.recovery, named.recovery.identification
    label = "What it refuses" if named.constraints == 1 else f"What it refuses ({k})"
    stand_ins = known.set_of(k)
    if stand_ins is not None:
        others = listed([f"**{named.constraint(j)}**" for j in stand_ins.members])
        text = (
            f"One at least of {others} holds it back ({chance(stand_ins.p_value)} if none did); "
            "the data do not tell which, so each price may be 0."
        )
        return Headline(text, label, "one of several", Tone.CAUTION)
    if not named.identified[k]:
        name, highest = named.constraint(k), known.multiplier_intervals[k][1]
        limit = f"A price above {short(highest)} for it is ruled out."
        text = f"Nothing that these demonstrations show: {name} is not seen to hold it back."
        is_slack = any(one.about.constraint == k for one in of_kinds(known.findings, [Kind.SLACK]))
        verdict = "slack budget" if is_slack else "not identified"
        detail = limit if np.isfinite(highest) else ""
        return Headline(text, label, verdict, Tone.CAUTION, detail=detail)
    weights, names = recovery.cost_weights[k], recovery.cost_names[k]
    text, is_loose = _avoided(names, weights, known.cost_intervals[k])
    costs = named.costs[k] if named.tabular else np.zeros(0)
    worst = [s for s in largest_first(costs)[:NAMED] if costs[s] > 0]
    places = [f"{named.state(s)} at {short(float(costs[s]))}" for s in worst]
    detail = f"What a step costs, where it costs most: {listed(places)}. " if worst else ""
    detail += _ranges(named, names, weights, known.cost_intervals[k])
    return _weighed(text, label, detail, is_loose=is_loose)


def _avoided(names: Sequence[str], weights: np.ndarray, ends: np.ndarray) -> tuple[str, bool]:
    """What the weights of a cost refuse, in words, and whether their shares are not settled."""
    low, high = ends.T
    unlimited = high == np.inf
    # From 0 to 1 is all that a weight can be: 0 is then no finding.
    unknown = (np.abs(weights) <= LITTLE) & (low <= 0.0) & (high >= 1.0) & ~unlimited
    ordinary = np.flatnonzero(~unlimited & ~unknown).tolist()
    bold = [f"**{name}**" for name in names]
    texts = []
    if any(weights[j] > LITTLE for j in ordinary):
        texts.append(_listed("It avoids", [names[j] for j in ordinary], weights[ordinary]))
    if unlimited.any():
        which = listed([bold[j] for j in np.flatnonzero(unlimited)[:NAMED]])
        texts.append(f"It never touches {which}: a limit from below is all that can be told.")
    if unknown.any():
        which = listed([bold[j] for j in np.flatnonzero(unknown)[:NAMED]])
        texts.append(f"Whether it avoids {which} cannot be told.")
    is_loose = len(ordinary) > 0 and _is_loose(ends[ordinary], weights[ordinary])
    return " ".join(texts) or "It avoids nothing in particular.", bool(unknown.any()) or is_loose


def _price(named: NamedRecovery, k: int) -> Headline:
    """The budget of a constraint, and what one more unit would buy."""
    recovery, known = named.recovery, named.recovery.identification
    budget, price = float(recovery.budgets[k]), float(recovery.multipliers[k])
    of = "" if named.constraints == 1 else f" of {named.constraint(k)}"
    text = f"It accepts an expected discounted cost{of} of at most **{short(budget)}**."
    if np.isfinite(price):
        text += (
            f" One more unit of expected discounted cost would buy it **{short(price)}** of reward."
        )
    details = []
    value = 0.0 if recovery.solution is None else abs(float(recovery.solution.value))
    gain = 0.1 * price * abs(budget) / value if value > 0 else np.nan
    if 0 < gain < 1:  # the bound is a straight line: far away it says nothing
        details.append(
            f"A budget one tenth larger would raise what it gets, now {short(value)}, by at "
            f"most {share(gain)}."
        )
    intervals = {"budget": known.budget_intervals[k], "price": known.multiplier_intervals[k]}
    details += [
        f"{_interval_kind(named)}, {name}: {interval_words(*ends)}."
        for name, ends in intervals.items()
        if not np.isnan(ends).any()
    ]
    label = "At what price" if named.constraints == 1 else f"At what price ({k})"
    return Headline(text, label, detail=" ".join(details))


def _agreement(named: NamedRecovery) -> Headline:
    """How well the predicted behaviour agrees with the data, judged by chance."""
    recovery, goodness = named.recovery, named.recovery.goodness
    gap, noise = recovery.certificate.feature_gap, recovery.certificate.sampling_noise
    is_fitting = goodness.adequate and not goodness.absence
    if np.isnan(gap) and is_fitting and isinstance(recovery, TripsRecovery | LoggedRecovery):
        # Goals have policies of their own, rows no sums: there is no one gap.
        text, verdict, tone = fit_headline(named).text, "behaviour matched", Tone.GOOD
    elif np.isnan(gap):
        text = "How well the predicted behaviour agrees with the data could not be measured."
        verdict, tone = "not measured", Tone.CAUTION
    else:
        verdict = _agreement_verdict(recovery)
        tone = Tone.GOOD if verdict == "behaviour matched" else Tone.CAUTION
        text = f"Predicted behaviour differs from the data by {share(gap)}"
        text += "." if np.isnan(noise) else f"; chance alone gives {share(noise)}."
        if verdict == "cut off too early to say":
            # What came after the end was not shown: the gap is no evidence against the answer.
            text += " But the trajectories were cut off, which may account for all of it."
    return Headline(text, "How sure", verdict, tone, detail=_confidence(recovery))


def _agreement_verdict(recovery: Recovery) -> str:
    """Whether the feature gap is chance, in a word or two."""
    proof, goodness = recovery.certificate, recovery.goodness
    gap, chance_gap = proof.feature_gap, NOISY * proof.sampling_noise
    if np.isnan(chance_gap):
        return "chance not known"
    if recovery.status is RecoveryStatus.NOT_CONVERGED:
        return "stopped early"
    if gap <= max(chance_gap, 1e-9):
        is_contradicted = any(of_kinds(recovery.identification.findings, [Kind.MISFIT]))
        is_contradicted |= goodness.hidden or not goodness.adequate
        return "matched on average only" if is_contradicted else "behaviour matched"
    is_cut_off = gap <= chance_gap + proof.truncation
    return "cut off too early to say" if is_cut_off else "behaviour not matched"


def _confidence(recovery: Recovery) -> str:
    """How the search ended, what noise hides, and what a test would have noticed."""
    status = recovery.status
    converged = status in (RecoveryStatus.CONVERGED, RecoveryStatus.LOCAL_OPTIMUM)
    sentences = [f"The search {status.value}." if converged else f"{capital(status.value)}."]
    if recovery.temperature > 0:
        sentences.append(
            "It acts with noise: differences in worth below about "
            f"{short(recovery.temperature)} of reward do not guide it."
        )
    return " ".join([*sentences, recovery.goodness.power_sentence()]).rstrip()


def by_name(recovery: Recovery, layout: Layout) -> Recovery:
    """The recovery, what is forbidden, undecided or misfit by the names of states and actions.

    In its records and in the sentences made of them; what a finding is about stays in numbers.
    """
    fit, known = replace(recovery.goodness, farthest=""), recovery.identification
    sentence = fit.sentence(layout.state_names, layout.action_names)
    renamed = {one: Finding(sentence, one.kind, **vars(one.about)) for one in fit.findings()}
    parts = {name: getattr(recovery, name) for name in ("forbidden", "undecided", "simplest")}
    names = {one.name: _called(one, layout) for part in parts.values() for one in part}
    records = {
        name: tuple(
            replace(one, name=names[one.name], rival=names.get(one.rival, one.rival))
            for one in part
        )
        for name, part in parts.items()
    }
    renamed |= dict(zip(record_findings(**parts), record_findings(**records), strict=True))
    findings = tuple(renamed.get(one, one) for one in known.findings)
    return replace(recovery, identification=replace(known, findings=findings), **records)


def _called(one: HardConstraint, layout: Layout) -> str:
    """The name of a hard constraint, that of the layout where it is about states or actions."""
    if isinstance(one.index, tuple):
        state, action = one.index
        return f"{layout.action_name(action)} in {layout.state_name(state)}"
    called = {"state": layout.state_name, "action": layout.action_name}.get(one.kind)
    return one.name if called is None else called(one.index)


def _never(named: NamedRecovery) -> Headline:
    """What is forbidden, the surest first, and the pairs of which one is."""
    forbidden = named.recovery.forbidden
    surest = sorted(forbidden, key=lambda one: one.allowed if np.isfinite(one.allowed) else 1.0)
    names = [f"**{one.name}**" for one in surest[:NAMED]]
    names += [f"{len(forbidden) - NAMED} more"] if len(forbidden) > NAMED else []
    pairs = {frozenset((one.name, one.rival)) for one in named.recovery.undecided if one.rival}
    either = sorted(" or ".join(sorted(pair)) for pair in pairs)[:NAMED]
    detail = f"And of each pair one, which cannot be told: {'; '.join(either)}." if either else ""
    return Headline(f"It never takes {listed(names)}.", "What it refuses", detail=detail)


def _open(named: NamedRecovery) -> Headline:
    """What the demonstrations leave open."""
    known, label = named.recovery.identification, "What cannot be told"
    # What is taken out of the world is no cost without an upper limit: it is said above.
    is_said = named.recovery.available is not None
    kinds = [kind for kind in OPEN if kind is not Kind.FORBIDDEN or not is_said]
    sentences = [capital(finding) for finding in of_kinds(known.findings, kinds)]
    if np.isnan(known.reward_intervals).all():
        sentences.insert(0, "How far the weights may be off: this answer has no intervals.")
    if not sentences:
        return Headline("The fit found nothing that these demonstrations leave open.", label)
    return first_sentences(sentences, label, Tone.CAUTION)


def _listed(verb: str, names: Sequence[str], weights: np.ndarray) -> str:
    """The heaviest features as one sentence."""
    order = [j for j in largest_first(weights) if weights[j] > LITTLE]
    if not order:
        return f"{verb} nothing in particular."
    heaviest = short(float(weights[order[0]]), digits=2 if len(order) > 1 else 3)
    first, of = f"{verb} **{names[order[0]]}**", f"(weight {heaviest} of 1)"
    if len(names) == 1:
        return f"{first}."
    if len(order) == 1:
        # Others may count the other way.
        alone = "" if (weights < -LITTLE).any() else " and hardly anything else"
        return f"{first}{alone} {of}."
    parts = [f"**{names[j]}** ({short(float(weights[j]), digits=2)})" for j in order[1:NAMED]]
    rest = f", and {len(order) - NAMED} more" if len(order) > NAMED else ""
    return f"{first} most {of}, then {listed(parts)}{rest}."


def _ranges(
    named: NamedRecovery, names: Sequence[str], weights: np.ndarray, intervals: np.ndarray
) -> str:
    """The intervals of the heaviest features, in words; a lone weight is 1 by the gauge."""
    order = largest_first(np.abs(weights))[:NAMED] if len(weights) > 1 else []
    parts = [
        f"{names[j]} {interval_words(*intervals[j])}"
        for j in order
        if not np.isnan(intervals[j]).any()
    ]
    return f"{_interval_kind(named)}: {'; '.join(parts)}." if parts else ""


def _interval_kind(named: NamedRecovery) -> str:
    return "Over all explanations" if named.whole_set else f"{named.confidence} interval"


def _is_loose(intervals: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the interval of the heaviest weight is too wide to speak of shares."""
    low, high = intervals[first_largest(np.abs(weights))]
    return bool(high - low > LOOSE)
