"""The findings on top of a report: wants, refuses, price, how sure, what cannot be told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tacit.inverse.recovery import RecoveryStatus
from tacit.show.bars import interval_words
from tacit.show.digits import share, short
from tacit.show.document import Finding, Tone
from tacit.show.recovery.subject import Subject
from tacit.show.tables import Bar

NAMED = 3  # features, states or sentences that are named before the rest is counted
NOISY = 2.0  # times the sampling noise: a gap beyond it is not chance
LOOSE = 0.5  # width of the interval of the heaviest weight beyond which shares are not settled
LITTLE = 0.005  # a weight below it is not worth a word

# How sentences begin or what they say that are about what the data leave open.
_OPEN = re.compile(
    r"not identified|cannot|trade off|no upper|Nothing is known|never visited|may be inactive"
    r"|could explain|do not determine|not explained|no intervals|trivial",
)


def top_findings(
    subject: Subject, notes: Sequence[str] = (), asked: Mapping[str, Sequence[str]] | None = None
) -> list[Finding]:
    """What was found, in plain words, most important first.

    Args:
        subject: what was recovered.
        notes: what was assumed.
        asked: further question -> the sentences that answer it.
    """
    found = [_wants(subject)]
    found += [_refuses(subject, k) for k in range(subject.constraints)]
    if not subject.constraints:
        found.append(Finding("Nothing was asked: the problem names no costs.", "What it refuses"))
    found += [_price(subject, k) for k in range(subject.constraints) if subject.identified[k]]
    answers = {label: " ".join(said) for label, said in (asked or {}).items() if said}
    open_ones = [text for text in answers.values() if _OPEN.search(text)]
    found.append(_sure(subject))
    found += [Finding(text, name) for name, text in answers.items() if text not in open_ones]
    found.append(_untold(subject, open_ones))
    if notes:
        rest = len(notes) - NAMED
        more = f"{rest} more under “What was assumed” below." if rest > 0 else ""
        found.append(Finding(" ".join(notes[:NAMED]), "What was assumed", detail=more))
    return found


def _wants(subject: Subject) -> Finding:
    recovery, known = subject.recovery, subject.recovery.identification
    weights, label = recovery.reward_weights, "What it wants"
    if not np.isfinite(weights).all():
        text = "Nothing that these demonstrations show: no reward is needed to explain them."
        return Finding(text, label, "not identified", Tone.CAUTION)
    text = _listed("It wants", recovery.reward_names, weights)
    negative = [name for name, w in zip(recovery.reward_names, weights, strict=True) if w < -LITTLE]
    if negative:
        text += f" Less of {_joined([f'**{name}**' for name in negative[:NAMED]])} is better."
    loose = _loose(known.reward_intervals, weights)
    verdict, tone = ("not settled", Tone.CAUTION) if loose else ("", Tone.PLAIN)
    detail = _ranges(subject, recovery.reward_names, weights, known.reward_intervals)
    return Finding(text, label, verdict, tone, detail)


def _refuses(subject: Subject, k: int) -> Finding:
    recovery, known = subject.recovery, subject.recovery.identification
    label = "What it refuses" if subject.constraints == 1 else f"What it refuses ({k})"
    if not subject.identified[k]:
        price = known.multiplier_intervals[k]
        limit = ""
        if np.isfinite(price[1]):
            limit = f"A price above {short(price[1])} for it is ruled out."
        text = (
            f"Nothing that these demonstrations show: {subject.constraint(k)} is not seen to "
            "hold it back."
        )
        return Finding(text, label, "not identified", Tone.CAUTION, limit)
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
    costs = subject.costs[k]
    worst = [s for s in np.argsort(-costs, kind="stable")[:NAMED] if costs[s] > 0]
    places = _joined([f"{subject.state(s)} at {short(costs[s])}" for s in worst])
    detail = f"What a step costs, where it costs most: {places}. " if worst else ""
    detail += _ranges(subject, names, weights, ends)
    text = " ".join(texts) or "It avoids nothing in particular."
    loose = bool(untold) or (len(ordinary) > 0 and _loose(ends[ordinary], weights[ordinary]))
    verdict, tone = ("not settled", Tone.CAUTION) if loose else ("", Tone.PLAIN)
    return Finding(text, label, verdict, tone, detail)


def _price(subject: Subject, k: int) -> Finding:
    recovery, known = subject.recovery, subject.recovery.identification
    budget, price = float(recovery.budgets[k]), float(recovery.multipliers[k])
    of = "" if subject.constraints == 1 else f" of {subject.constraint(k)}"
    text = f"It accepts an expected discounted cost{of} of at most **{short(budget)}**."
    if np.isfinite(price):
        text += (
            f" One more unit of expected discounted cost would buy it **{short(price)}** of reward."
        )
    details = []
    value = abs(float(recovery.solution.value))
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
            words = interval_words(Bar(0.0, (0, 1), float(ends[0]), float(ends[1])))
            details.append(f"{_interval_kind(subject)}, {name}: {words}.")
    label = "At what price" if subject.constraints == 1 else f"At what price ({k})"
    return Finding(text, label, detail=" ".join(details))


def _sure(subject: Subject) -> Finding:
    """How well what was recovered does what was shown, judged by chance."""
    certificate, status = subject.recovery.certificate, subject.recovery.status
    gap, noise, label = certificate.feature_gap, certificate.sampling_noise, "How sure"
    detail = (
        f"The search {status.value}."
        if status.value.startswith("converged")
        else (f"{status.value[0].upper()}{status.value[1:]}.")
    )
    if subject.recovery.temperature > 0:
        detail += (
            f" It acts with noise: differences in worth below about "
            f"{short(subject.recovery.temperature)} of reward do not guide it."
        )
    if np.isnan(gap):
        text = "How well it does what was shown could not be measured."
        return Finding(text, label, "not measured", Tone.CAUTION, detail)
    if np.isnan(noise):
        text = f"What it would do differs from what was shown by {share(gap)}."
        return Finding(text, label, "chance not known", Tone.CAUTION, detail)
    fine = gap <= max(NOISY * noise, 1e-9)
    text = (
        f"What it would do agrees with what was shown: they differ by {share(gap)}, where "
        f"chance alone makes {share(noise)}."
        if fine
        else f"What it would do is not what was shown: they differ by {share(gap)}, where "
        f"chance alone makes {share(noise)}."
    )
    if status is RecoveryStatus.NOT_CONVERGED:
        return Finding(text, label, "stopped early", Tone.CAUTION, detail)
    if fine:
        return Finding(text, label, "behaviour matched", Tone.GOOD, detail)
    if gap <= NOISY * noise + certificate.truncation:
        # What came after the end was not shown: the gap is no evidence against the answer.
        text = (
            f"What it would do differs from what was shown by {share(gap)}, where chance alone "
            f"makes {share(noise)}; but the trajectories were cut off, which may account for all "
            "of it."
        )
        return Finding(text, label, "cut off too early to say", Tone.CAUTION, detail)
    return Finding(text, label, "behaviour not matched", Tone.CAUTION, detail)


def _untold(subject: Subject, more: Sequence[str]) -> Finding:
    known, label = subject.recovery.identification, "What cannot be told"
    sentences = [capital(s) for s in known.findings if _OPEN.search(s) and "picked" not in s]
    if np.isnan(known.reward_intervals).all():
        sentences.insert(0, "How far the weights may be off: this answer has no intervals.")
    sentences = [*more, *sentences]
    if not sentences:
        return Finding("Nothing was found that these demonstrations leave open.", label)
    rest = len(sentences) - NAMED
    detail = f"{rest} more under “Guarantees and findings” below." if rest > 0 else ""
    return Finding(" ".join(sentences[:NAMED]), label, "", Tone.CAUTION, detail)


def capital(sentence: str) -> str:
    """The sentence with a capital letter, also where a name begins it."""
    return sentence[:1].upper() + sentence[1:]


def _listed(verb: str, names: Sequence[str], weights: np.ndarray) -> str:
    """The heaviest features as one sentence."""
    order = [j for j in np.argsort(-weights, kind="stable") if weights[j] > LITTLE]
    if not order:
        return f"{verb} nothing in particular."
    first = f"{verb} **{names[order[0]]}**"
    if len(names) == 1:
        return f"{first}."
    parts = [f"**{names[j]}** ({short(weights[j], digits=2)})" for j in order[1:NAMED]]
    if len(order) == 1:
        return f"{first} and hardly anything else (weight {short(weights[order[0]])} of 1)."
    text = f"{first} most (weight {short(weights[order[0]], digits=2)} of 1)"
    text += f", then {_joined(parts)}" if parts else ""
    rest = len(order) - NAMED
    return f"{text}{f', and {rest} more' if rest > 0 else ''}."


def _ranges(
    subject: Subject, names: Sequence[str], weights: np.ndarray, intervals: np.ndarray
) -> str:
    """The intervals of the heaviest features, in words."""
    order = np.argsort(-np.abs(weights), kind="stable")[:NAMED]
    if len(weights) == 1:
        return ""  # of one weight the gauge alone says that it is 1
    parts = [
        f"{names[j]} {interval_words(Bar(0.0, (0, 1), float(low), float(high)))}"
        for j in order
        for low, high in [intervals[j]]
        if not np.isnan((low, high)).any()
    ]
    return f"{_interval_kind(subject)}: {'; '.join(parts)}." if parts else ""


def _interval_kind(subject: Subject) -> str:
    return "Over all explanations" if subject.whole_set else "95 % interval"


def _loose(intervals: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the interval of the heaviest weight is too wide to speak of shares."""
    low, high = intervals[int(np.abs(weights).argmax())]
    return bool(high - low > LOOSE)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
