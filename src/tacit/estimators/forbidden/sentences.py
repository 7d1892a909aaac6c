"""What is forbidden, or may be, in sentences: made of the records alone, so by any names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.estimators.forbidden.candidates import Candidate
from tacit.files.wording import capital
from tacit.inference.findings import Finding, Kind, listed
from tacit.inference.sets import HardConstraint

# Hard constraints named in the sentence on what is undecided.
SAID = 5


def about(one: Candidate | HardConstraint) -> dict[str, int | str]:
    """The fields of a finding about something that is, or may be, forbidden."""
    if isinstance(one.index, tuple):
        return {"state": one.index[0], "action": one.index[1]}
    return {one.kind: one.index} if one.kind in ("state", "action") else {"feature": one.name}


def record_findings(
    forbidden: Sequence[HardConstraint],
    undecided: Sequence[HardConstraint],
    simplest: Sequence[HardConstraint],
) -> list[Finding]:
    """One for each name and each pair; one for all else that is undecided, and for the simplest."""
    found = []
    for one in forbidden:
        surely = "whatever else is forbidden" if one.strict else "given all that may be forbidden"
        sentence = f"{capital(one.name)} is forbidden: {_believed(one.allowed)}, {surely}."
        found.append(Finding(sentence, Kind.FORBIDDEN, **about(one), number=one.allowed))
    paired: set[str] = set()
    for one in [one for one in undecided if one.rival]:
        if one.name not in paired:
            paired |= {one.name, one.rival}
            sentence = (
                f"{capital(one.name)} or {one.rival} is forbidden, and which of them cannot be "
            )
            sentence += f"told: the posterior chance that neither is is {_few(one.neither)}."
            found.append(Finding(sentence, Kind.NOT_IDENTIFIED, **about(one), number=one.neither))
    plain = [one for one in undecided if not one.rival]
    if plain:
        named = [
            f"{one.name} ({_believed(one.allowed)}; {_wait(one.more)})" for one in plain[:SAID]
        ]
        named += [f"{len(plain) - SAID} more"] if len(plain) > SAID else []
        verb = "is" if len(plain) == 1 else "are"
        sentence = f"Whether {listed(named)} {verb} forbidden cannot be told."
        found.append(Finding(sentence, Kind.NOT_IDENTIFIED, number=len(plain)))
    named = {one.name for one in forbidden}
    if others := [one.name for one in simplest if one.name not in named]:
        sentence = (
            f"The simplest explanation also forbids {listed(others, SAID)}: it assumes that "
            "nothing is forbidden but what it needs, which the demonstrations do not show. It has "
            "no error rate."
        )
        found.append(Finding(sentence, Kind.ASSUMED, number=len(others)))
    return found


def rule_findings(count: int, level: float, spent: float, guessed: bool) -> list[Finding]:
    """What the names of so many candidates rest on.

    Args:
        count: of candidates.
        level: that the chances of false statements may add up to.
        spent: what they add up to.
        guessed: whether reward or noise were estimated.
    """
    sentence = (
        f"{count} candidates were judged together, each forbidden with the same unknown chance, "
        "1 in 10 beforehand: the chances that a name or a pair is false add up to "
        f"{_few(spent)}, and to {level:g} at most"
    )
    if guessed:
        sentence += "; they take the recovered reward and noise for the true ones"
    return [Finding(f"{sentence}.", Kind.ERRORS, number=count)]


def misfit_finding(names: Sequence[str], p_value: float) -> Finding:
    """That nothing is named, since the model does not fit, and what would have been."""
    sentence = (
        "Nothing is named as forbidden: reward, noise and candidates together do not fit what was "
        "seen, and a wrong reward makes names false far more often than the level says. Without "
        f"that {listed(names, SAID)} would be named. Mend the fit first."
    )
    return Finding(sentence, Kind.MISFIT, number=p_value)


def apart_finding() -> Finding:
    """Two searches that found different sets."""
    sentence = (
        "Two chains over what may be forbidden, begun far from each other, do not agree: nothing "
        "is named. Fewer candidates, or more demonstrations, would help."
    )
    return Finding(sentence, Kind.NOT_CONVERGED)


def _few(chance: float) -> str:
    """A posterior chance in words that never round it to 0."""
    return "below 0.001" if chance < 0.001 else f"{chance:.3f}"


def _believed(chance: float) -> str:
    return f"allowed with posterior chance {_few(chance)}"


def _wait(more: float) -> str:
    if np.isnan(more):
        return "not known how many more would tell"
    return (
        f"about {more:.0f} more demonstrations would tell" if more < np.inf else "none would tell"
    )
