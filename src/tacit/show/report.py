"""What the report says on top, from the kinds of the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.inverse.findings import OPEN, WARNINGS, Finding, Kind, chance, of_kinds
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.recovery import Recovery, RecoveryStatus
from tacit.model.layout import Layout
from tacit.search.algebra import first_largest, largest_first
from tacit.show import Headline, Tone
from tacit.show.quantities import NamedRecovery
from tacit.show.tables import interval_words, share, short

NAMED = 3  # features, states or sentences that are named before the rest is counted
NOISY = 2.0  # times the sampling noise: a gap beyond it is not chance
LOOSE = 0.5  # width of the interval of the heaviest weight beyond which shares are not settled
LITTLE = 0.005  # a weight below it is not worth a word


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
    constraints = range(named.constraints)
    found = [*_misfit(named), _wants(named), *(_refuses(named, k) for k in constraints)]
    if named.recovery.forbidden and named.recovery.available is not None:
        found.append(_never(named))
    elif not named.constraints:
        found.append(Headline("Nothing was asked: the problem names no costs.", "What it refuses"))
    found += [_price(named, k) for k in constraints if named.identified[k]]
    found.append(_sure(named))
    # That the model does not fit is said above, with the names of state and action.
    said = [(one.kind, one.about) for one in named.recovery.goodness.findings()]
    findings = of_kinds(named.recovery.identification.findings, WARNINGS)
    findings = [one for one in findings if (one.kind, one.about) not in said]
    warnings = [capital(one) for one in findings]
    if warnings:
        told = first_sentences(warnings, "Warnings", Tone.CAUTION, "Guarantees and findings")
        # What does not fit comes before all that is read from it; the rest after that.
        wrong = findings[0].kind is Kind.MISFIT
        found.insert(len(_misfit(named)) if wrong else len(found), told)
    found += [Headline(" ".join(said), name) for name, said in (answers or {}).items() if said]
    found.append(_untold(named))
    if notes:
        found.append(first_sentences(notes, "What was assumed", Tone.PLAIN, "What was assumed"))
    return found


def character(named: NamedRecovery, label: str) -> Headline:
    """What one of several wants and refuses, and at what price, as one headline."""
    every, known = range(named.constraints), named.recovery.identification
    parts = [_wants(named)]
    for k in every:
        parts.append(_refuses(named, k))
        if not named.identified[k] and known.set_of(k) is None:
            text = f"{capital(named.constraint(k))} is not seen to hold it back."
            parts[-1] = replace(parts[-1], text=text, verdict="")
    parts += [_price(named, k) for k in every if named.identified[k]]
    open_ones = [one for one in parts if one.verdict]
    verdict = open_ones[0].verdict if open_ones else ""
    tone = open_ones[0].tone if open_ones else Tone.PLAIN
    text = " ".join(one.text for one in parts)
    detail = " ".join(one.detail for one in parts if one.detail)
    return Headline(text, label, verdict, tone, detail=detail)


def _misfit(named: NamedRecovery) -> list[Headline]:
    """That the model does not fit, where it does not: before anything is read from it."""
    goodness, layout = named.recovery.goodness, named.layout
    if goodness.absence and named.recovery.parameters.weighted:
        said = f"{goodness.sentence()} All numbers are those of the weighted steps."
        return [Headline(said, "Does the model fit?", "not tested", Tone.CAUTION)]
    if goodness.adequate:
        return []
    said = goodness.sentence(layout.state_names, layout.action_names)
    return [Headline(said, "Does the model fit?", "no", Tone.CAUTION)]


def first_sentences(sentences: Sequence[str], label: str, tone: Tone, section: str) -> Headline:
    """The first sentences, and where the others stand."""
    rest = len(sentences) - NAMED
    detail = f"{rest} more under “{section}” below." if rest > 0 else ""
    return Headline(" ".join(sentences[:NAMED]), label, tone=tone, detail=detail)


def _wants(named: NamedRecovery) -> Headline:
    recovery, known = named.recovery, named.recovery.identification
    weights, label = recovery.reward_weights, "What it wants"
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
    loose = _loose(known.reward_intervals, weights)
    verdict, tone = ("not settled", Tone.CAUTION) if loose else ("", Tone.PLAIN)
    detail = _ranges(named, recovery.reward_names, weights, known.reward_intervals)
    return Headline(text, label, verdict, tone, detail=detail)


def _refuses(named: NamedRecovery, k: int) -> Headline:
    recovery, known = named.recovery, named.recovery.identification
    label = "What it refuses" if named.constraints == 1 else f"What it refuses ({k})"
    stand_ins = known.set_of(k)
    if stand_ins is not None:
        others = _joined([f"**{named.constraint(j)}**" for j in stand_ins.members])
        text = (
            f"One at least of {others} holds it back ({chance(stand_ins.p_value)} if none did); "
            "the data do not tell which, so each price may be 0."
        )
        return Headline(text, label, "one of several", Tone.CAUTION)
    if not named.identified[k]:
        price = known.multiplier_intervals[k]
        limit = ""
        if np.isfinite(price[1]):
            limit = f"A price above {short(price[1])} for it is ruled out."
        text = (
            f"Nothing that these demonstrations show: {named.constraint(k)} is not seen to "
            "hold it back."
        )
        slack = any(f.about.constraint == k for f in of_kinds(known.findings, [Kind.SLACK]))
        verdict = "slack budget" if slack else "not identified"
        return Headline(text, label, verdict, Tone.CAUTION, detail=limit)
    weights, names = recovery.cost_weights[k], recovery.cost_names[k]
    ends = known.cost_intervals[k]
    barred = [j for j in range(len(weights)) if ends[j, 1] == np.inf]
    # From 0 to 1 is all that a weight can be: 0 is then no finding.
    untold = [
        j
        for j in range(len(weights))
        if abs(weights[j]) <= LITTLE and ends[j, 0] <= 0.0 and 1.0 <= ends[j, 1] < np.inf
    ]
    ordinary = [j for j in range(len(weights)) if j not in barred and j not in untold]
    texts = []
    if any(weights[j] > LITTLE for j in ordinary):
        texts.append(_listed("It avoids", [names[j] for j in ordinary], weights[ordinary]))
    if barred:
        which = _joined([f"**{names[j]}**" for j in barred[:NAMED]])
        texts.append(f"It never touches {which}: a limit from below is all that can be told.")
    if untold:
        which = _joined([f"**{names[j]}**" for j in untold[:NAMED]])
        texts.append(f"Whether it avoids {which} cannot be told.")
    costs = named.costs[k]
    worst = [s for s in largest_first(costs)[:NAMED] if costs[s] > 0]
    places = _joined([f"{named.state(s)} at {short(costs[s])}" for s in worst])
    detail = f"What a step costs, where it costs most: {places}. " if worst else ""
    detail += _ranges(named, names, weights, ends)
    text = " ".join(texts) or "It avoids nothing in particular."
    loose = bool(untold) or (len(ordinary) > 0 and _loose(ends[ordinary], weights[ordinary]))
    verdict, tone = ("not settled", Tone.CAUTION) if loose else ("", Tone.PLAIN)
    return Headline(text, label, verdict, tone, detail=detail)


def _price(named: NamedRecovery, k: int) -> Headline:
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
    if np.isfinite(price) and np.isfinite(budget) and value > 0 and price > 0:
        gain = 0.1 * price * abs(budget) / value
        if gain < 1:  # the bound is a straight line: far away it says nothing
            details.append(
                f"A budget one tenth larger would raise what it gets, now {short(value)}, by at "
                f"most {share(gain)}."
            )
    for name, ends in (
        ("budget", known.budget_intervals[k]),
        ("price", known.multiplier_intervals[k]),
    ):
        if not np.isnan(ends).any():
            words = interval_words(*ends)
            details.append(f"{_interval_kind(named)}, {name}: {words}.")
    label = "At what price" if named.constraints == 1 else f"At what price ({k})"
    return Headline(text, label, detail=" ".join(details))


def _sure(named: NamedRecovery) -> Headline:
    """How well the predicted behaviour agrees with the data, judged by chance."""
    certificate, status = named.recovery.certificate, named.recovery.status
    gap, noise, label = certificate.feature_gap, certificate.sampling_noise, "How sure"
    converged = status in (RecoveryStatus.CONVERGED, RecoveryStatus.LOCAL_OPTIMUM)
    detail = f"The search {status.value}." if converged else f"{capital(status.value)}."
    if named.recovery.temperature > 0:
        detail += (
            f" It acts with noise: differences in worth below about "
            f"{short(named.recovery.temperature)} of reward do not guide it."
        )
    goodness, layout = named.recovery.goodness, named.layout
    detail = f"{detail} {goodness.power_sentence()}".rstrip()
    trips = isinstance(named.recovery, TripsRecovery)  # each goal has a policy of its own
    if trips and np.isnan(gap) and goodness.adequate and not goodness.absence:
        text = goodness.sentence(layout.state_names, layout.action_names)
        return Headline(text, label, "behaviour matched", Tone.GOOD, detail=detail)
    if np.isnan(gap):
        text = "How well the predicted behaviour agrees with the data could not be measured."
        return Headline(text, label, "not measured", Tone.CAUTION, detail=detail)
    text = f"Predicted behaviour differs from the data by {share(gap)}"
    if np.isnan(noise):
        return Headline(f"{text}.", label, "chance not known", Tone.CAUTION, detail=detail)
    text += f"; chance alone gives {share(noise)}."
    if status is RecoveryStatus.NOT_CONVERGED:
        return Headline(text, label, "stopped early", Tone.CAUTION, detail=detail)
    wrong = any(one.kind is Kind.MISFIT for one in named.recovery.identification.findings)
    wrong |= goodness.hidden or not goodness.adequate
    if gap <= max(NOISY * noise, 1e-9) and wrong:  # the sums do, something else does not
        return Headline(text, label, "matched on average only", Tone.CAUTION, detail=detail)
    if gap <= max(NOISY * noise, 1e-9):
        return Headline(text, label, "behaviour matched", Tone.GOOD, detail=detail)
    if gap <= NOISY * noise + certificate.truncation:
        # What came after the end was not shown: the gap is no evidence against the answer.
        text += " But the trajectories were cut off, which may account for all of it."
        return Headline(text, label, "cut off too early to say", Tone.CAUTION, detail=detail)
    return Headline(text, label, "behaviour not matched", Tone.CAUTION, detail=detail)


def by_name(recovery: Recovery, layout: Layout) -> Recovery:
    """The recovery, what is forbidden, undecided or misfit by the names of states and actions.

    In its records and in the sentences made of them; what a finding is about stays in numbers.
    """
    recovery = _misfit_by_name(recovery, layout)
    old = (*recovery.forbidden, *recovery.undecided, *recovery.simplest)
    kinds = {one.kind for one in old}
    if not kinds & {"state", "action", "pair"}:
        return recovery
    from tacit.inverse.forbidden.sentences import record_findings

    states, actions = recovery.solution.policy.shape
    names = {f"state {s}": layout.state_name(s) for s in range(states)}
    names |= {f"action {a}": layout.action_name(a) for a in range(actions)}
    if "pair" in kinds:
        names |= {
            f"action {a} in state {s}": f"{layout.action_name(a)} in {layout.state_name(s)}"
            for s in range(states)
            for a in range(actions)
        }
    names |= {one.name: one.name for one in old if one.kind in ("group", "feature")}
    parts = {name: getattr(recovery, name) for name in ("forbidden", "undecided", "simplest")}
    named = {
        name: tuple(
            replace(one, name=names.get(one.name, one.name), rival=names.get(one.rival, one.rival))
            for one in part
        )
        for name, part in parts.items()
    }
    plain, spoken = record_findings(**parts), record_findings(**named)
    told, known = dict(zip(plain, spoken, strict=True)), recovery.identification
    said = (Finding(told.get(one, one), one.kind, **vars(one.about)) for one in known.findings)
    changed = replace(known, findings=tuple(said))
    return replace(recovery, identification=changed, **named)


def _misfit_by_name(recovery: Recovery, layout: Layout) -> Recovery:
    """The recovery, its finding of misfit with the names of the layout."""
    fit, known = replace(recovery.goodness, farthest=""), recovery.identification
    plain = [(one.kind, one.about) for one in fit.findings()]
    named = fit.sentence(layout.state_names, layout.action_names)
    said = (
        Finding(named, one.kind, **vars(one.about)) if (one.kind, one.about) in plain else one
        for one in known.findings
    )
    return replace(recovery, identification=replace(known, findings=tuple(said)))


def _never(named: NamedRecovery) -> Headline:
    """What is forbidden, the surest first, and the pairs of which one is."""
    found = named.recovery.forbidden
    surest = sorted(found, key=lambda one: one.allowed if np.isfinite(one.allowed) else 1.0)
    parts = [f"**{one.name}**" for one in surest[:NAMED]]
    parts += [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
    pairs = {frozenset((one.name, one.rival)) for one in named.recovery.undecided if one.rival}
    listed = sorted(" or ".join(sorted(pair)) for pair in pairs)
    detail = f"And of each pair one, which cannot be told: {'; '.join(listed[:NAMED])}."
    detail = detail if listed else ""
    return Headline(f"It never takes {_joined(parts)}.", "What it refuses", detail=detail)


def _untold(named: NamedRecovery) -> Headline:
    """What the demonstrations leave open."""
    known, label = named.recovery.identification, "What cannot be told"
    # What is taken out of the world is no cost without an upper limit: it is said above.
    above = named.recovery.available is not None
    kinds = [kind for kind in OPEN if kind is not Kind.FORBIDDEN or not above]
    sentences = [capital(finding) for finding in of_kinds(known.findings, kinds)]
    if np.isnan(known.reward_intervals).all():
        sentences.insert(0, "How far the weights may be off: this answer has no intervals.")
    if not sentences:
        return Headline("The fit found nothing that these demonstrations leave open.", label)
    return first_sentences(sentences, label, Tone.CAUTION, "Guarantees and findings")


def capital(sentence: str) -> str:
    """The sentence with a capital letter, also where a name begins it."""
    return sentence[:1].upper() + sentence[1:]


def _listed(verb: str, names: Sequence[str], weights: np.ndarray) -> str:
    """The heaviest features as one sentence."""
    order = [j for j in largest_first(weights) if weights[j] > LITTLE]
    if not order:
        return f"{verb} nothing in particular."
    first = f"{verb} **{names[order[0]]}**"
    if len(names) == 1:
        return f"{first}."
    if len(order) == 1 and (weights < -LITTLE).any():  # the others count the other way
        return f"{first} (weight {short(float(weights[order[0]]), digits=2)} of 1)."
    parts = [f"**{names[j]}** ({short(float(weights[j]), digits=2)})" for j in order[1:NAMED]]
    if len(order) == 1:
        return f"{first} and hardly anything else (weight {short(float(weights[order[0]]))} of 1)."
    text = f"{first} most (weight {short(float(weights[order[0]]), digits=2)} of 1)"
    text += f", then {_joined(parts)}" if parts else ""
    rest = len(order) - NAMED
    return f"{text}{f', and {rest} more' if rest > 0 else ''}."


def _ranges(
    named: NamedRecovery, names: Sequence[str], weights: np.ndarray, intervals: np.ndarray
) -> str:
    """The intervals of the heaviest features, in words."""
    order = largest_first(np.abs(weights))[:NAMED]
    if len(weights) == 1:
        return ""  # of one weight the gauge alone says that it is 1
    parts = [
        f"{names[j]} {interval_words(low, high)}"
        for j in order
        for low, high in [intervals[j]]
        if not np.isnan((low, high)).any()
    ]
    return f"{_interval_kind(named)}: {'; '.join(parts)}." if parts else ""


def _interval_kind(named: NamedRecovery) -> str:
    return "Over all explanations" if named.whole_set else f"{named.confidence} interval"


def _loose(intervals: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the interval of the heaviest weight is too wide to speak of shares."""
    low, high = intervals[first_largest(np.abs(weights))]
    return bool(high - low > LOOSE)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
