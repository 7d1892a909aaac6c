"""What a terminal says: what is wanted, what is refused, how sure that is; and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tacit.data.demonstrations import Demonstrations
from tacit.files.atomic import Page
from tacit.inverse.findings import Kind
from tacit.inverse.joint.traveller import TripsRecovery
from tacit.inverse.standardised import shown
from tacit.model.mdp import MDP
from tacit.search.algebra import largest_first

if TYPE_CHECKING:
    from tacit.folders.problem import Problem
    from tacit.folders.runs import Run
    from tacit.inverse.joint.recovery import JointRecovery
    from tacit.inverse.noisy.mixture import MixtureRecovery
    from tacit.inverse.recovery import Recovery
    from tacit.model.layout import Layout

WIDTH = 88
SHOWN = 12  # features and coefficients listed before the rest is counted
# What is said of each coefficient, and of all together.
ESTIMATED = ("names", "estimates", "standard_errors", "intervals", "p_values", "errors")
KNOWN = (
    "reward_intervals", "cost_intervals", "multiplier_intervals", "budget_intervals", "active",
    "p_values", "at_level",
)  # fmt: skip
LIKELIHOODS = ("log_likelihood", "null_log_likelihood", "aic", "bic")


def with_names(recovery: Recovery, layout: Layout) -> Recovery:
    """The recovery, what is forbidden or undecided, if anything, by the layout's names."""
    if not any(getattr(recovery, part, ()) for part in ("forbidden", "undecided", "simplest")):
        return recovery
    from tacit.show.report import by_name

    return by_name(recovery, layout)


def summarise(recovery: Recovery, layout: Layout | None = None) -> str:
    """The recovery as plain text, with the layout's names where it has any."""
    recovery = recovery if layout is None else with_names(recovery, layout)
    recovery = recovery.standardised
    names = (layout.state_names, layout.action_names) if layout else ((), ())
    misfit = [] if recovery.goodness.adequate else [recovery.goodness.sentence(*names), ""]
    parts = [
        *misfit,
        f"Recovered by {recovery.estimator or 'an unnamed estimator'}.",
        f"Status: {recovery.status.value}.",
        units_sentence(recovery),
        "",
        *_reward(recovery),
    ]
    for k, weights in enumerate(recovery.cost_weights):
        parts += ["", *_constraint(recovery, k, weights)]
    if recovery.temperature > 0 and np.isfinite(recovery.reward_weights).all():
        parts += ["", f"It errs with temperature {recovery.temperature:.4g} (rewards above = 1)."]
    elif recovery.temperature > 0:
        parts += ["", "It errs; without a reward its noise is the unit of the price."]
    if recovery.lapses is not None:
        ends = _interval(np.array(recovery.lapses.interval))
        parts += [f"Beside that {recovery.lapses.share:.4f}{ends} of its steps are lapses."]
    coefficients = coefficient_table(recovery)
    parts += ["", *coefficients] if coefficients else []
    parts += ["", "How sure", *_certificate(recovery)]
    # The misfit stands at the top already, there by name.
    said = [(one.kind, one.about) for one in recovery.goodness.findings()]
    findings = recovery.identification.findings
    findings = [one for one in findings if (one.kind, one.about) not in said]
    parts += ["", "Findings", *findings] if findings else []
    return "\n".join(_wrapped(part) for part in parts) + "\n"


def units_sentence(recovery: Recovery) -> str:
    """In what units weights, prices and budgets are shown."""
    if recovery.standard is None:
        return (
            "Weights, prices and budgets are in the units of the features as given, and depend on "
            "them."
        )
    return (
        "Weights, prices and budgets are of features divided by their standard deviation over all "
        "choices of the world; coefficients are of the features as given."
    )


def summarise_joint(joint: JointRecovery) -> str:
    """The recovery of several tasks as plain text: what they share, then each task."""
    joint = joint.standardised
    known, first = joint.identification, joint.recoveries[0]
    count = len(joint.recoveries)
    misfit = [finding for finding in joint.findings if finding.kind is Kind.MISFIT]
    lines = [
        *([*misfit, ""] if misfit else []),
        f"Recovered from {count} task{'s' if count > 1 else ''} by {joint.estimator}.",
        f"Status: {joint.status.value}.",
    ]
    if not isinstance(joint.reward_weights, tuple):
        lines += ["", "All tasks want"]
        lines += _features(first.reward_names, joint.reward_weights, known.reward_intervals)
    for k, weights in enumerate(joint.cost_weights):
        which = "" if len(joint.cost_weights) == 1 else f" ({k})"
        lines += [""]
        if np.isnan(weights).all():
            lines.append(f"All tasks refuse{which}: nothing these demonstrations show.")
            continue
        prices = ", ".join(f"{one.multipliers[k]:.4g}" for one in joint.recoveries)
        lines.append(f"All tasks refuse{which}, at prices of {prices}, what is made of")
        lines += _features(first.cost_names[k], weights, known.cost_intervals[k])
    lines += ["", "Findings", *joint.findings]
    text = "\n".join(_wrapped(line) for line in lines) + "\n"
    parts = [f"Task {e}\n{summarise(one)}" for e, one in enumerate(joint.recoveries)]
    return "\n".join([text, *parts])


def summarise_mixture(mixture: MixtureRecovery) -> str:
    """The recovery of several types as plain text: how many of each there are, then each type."""
    many = len(mixture.types)
    lines = [
        f"Recovered {many} type{'s' if many > 1 else ''} of demonstrators by {mixture.estimator}.",
        f"Status: {mixture.status.value}.",
        "",
        "Shares of the trajectories",
    ]
    assigned = np.bincount(mixture.assigned, minlength=many)
    for k in range(many):
        ends = _interval(mixture.share_intervals[k])
        lines.append(f"  type {k}  {mixture.shares[k]:.4f}{ends}, {assigned[k]} likeliest its own")
    lines.append(_likelihoods(mixture))
    if mixture.findings:
        lines += ["", "Findings", *mixture.findings]
    text = "\n".join(_wrapped(line) for line in lines) + "\n"
    parts = [f"Type {k}\n{summarise(one)}" for k, one in enumerate(mixture.types)]
    return "\n".join([text, *parts])


def holds_several(run: Run) -> bool:
    """Whether the run is one of types or of tasks."""
    return hasattr(run.recovery, "types") or hasattr(run.recovery, "recoveries")


def run_parts(run: Run, *, raw_units: bool = False) -> list[str]:
    """What a run says to people, one part under the other."""
    found = shown(run.recovery, raw_units=raw_units)
    told = found.summary() if holds_several(run) else summarise(found, run.layout)
    parts = [told, *(f"Note: {note}" for note in run.notes)]
    for result in run.extras.values():
        parts += [f"{result['text']}\n"] if "text" in result else []
        parts += list(result.get("sentences", ()))
    return parts


def run_data(run: Run) -> dict[str, Any]:
    """Everything that a run found, as names, numbers, lists and arrays, for other programs."""
    recovery, layout = run.recovery, run.layout
    data: dict[str, Any] = {
        "estimator": recovery.estimator,
        "status": recovery.status.name,
        "certificate": asdict(recovery.certificate),
        "data": run.data,
        "notes": run.notes,
        **{name: getattr(recovery, name) for name in LIKELIHOODS},
    }
    if hasattr(recovery, "types"):
        mixture = cast("MixtureRecovery", recovery)
        names = ("shares", "share_intervals", "membership", "tried", "criteria")
        types = [{**_numbers(one), "standardised": _standardised(one)} for one in mixture.types]
        kept = {"types": types, "trajectories": dict(run.trajectories)}
        return data | {name: getattr(mixture, name) for name in names} | kept
    goodness = recovery.goodness
    judged = ("adequate", "statistic", "p_value", "level", "share", "weight", "settled", "absence")
    judged = ("verdict", *judged)
    parts = {"parts": [asdict(part) for part in goodness.parts]}
    parts["power"] = [asdict(one) for one in goodness.power]
    fits = goodness.sentence(layout.state_names, layout.action_names)  # before all numbers
    more = {
        "standardised": _standardised(recovery),
        "rho_squared": recovery.rho_squared,
        "goodness": {name: getattr(goodness, name) for name in judged} | parts,
        "extras": {name: one for name, one in run.extras.items() if name != "budgets"},
    }
    return {"fit": fits, **_numbers(recovery), **data, **more}


def _standardised(recovery: Recovery) -> dict[str, object]:
    """The numbers of standardised features, and what the features are divided by."""
    numbers, names = _numbers(recovery.standardised), ("parameters", "sets", "selection")
    return {
        "deviations": None if recovery.standard is None else recovery.standard.deviations,
        **{name: one for name, one in numbers.items() if name not in names},
    }


def _numbers(recovery: Recovery) -> dict[str, object]:
    """Every number of one recovery by name, and what is known of it."""
    known = recovery.identification
    return {
        "reward_weights": dict(zip(recovery.reward_names, recovery.reward_weights, strict=True)),
        "cost_weights": [
            dict(zip(names, weights, strict=True))
            for names, weights in zip(recovery.cost_names, recovery.cost_weights, strict=True)
        ],
        **{name: getattr(recovery, name) for name in ("multipliers", "budgets", "temperature")},
        **{name: getattr(known, name) for name in KNOWN},
        "unadjusted_p_values": known.unadjusted,
        "sets": [asdict(one) for one in known.sets],
        "selection": None if known.selection is None else asdict(known.selection),
        **{
            name: {f: getattr(getattr(recovery, name), f) for f in (*ESTIMATED, "confidence")}
            for name in ("parameters", "noise_prices")
        },
    }


def coefficient_table(recovery: Recovery | JointRecovery) -> list[str]:
    """The coefficients, one a line, with what tests them; no line where none is known."""
    found = recovery.parameters
    if not np.isfinite(found.estimates).any():
        return []
    kind = f"{found.errors} standard errors" if not found.reason else found.reason
    level = f"{100 * found.confidence:g} % interval"
    heads = ("coefficient", "estimate", "std err", "z", "P>|z|", level)
    # The heaviest, in the order of the model.
    shown = np.sort(largest_first(np.abs(found.estimates))[:SHOWN])
    whole = found.estimates if found.unrestricted is None else found.unrestricted
    # What was left out stands at 0: z and P of another number, that of the fit with all, mislead.
    out = (found.estimates == 0.0) & (whole != 0.0)
    z, p_values = (np.where(out, np.nan, numbers) for numbers in (found.z, found.p_values))
    rows = [
        (
            found.names[j],
            _number(found.estimates[j]),
            _number(found.standard_errors[j]) if found.standard_errors[j] else "fixed",
            _number(z[j], "7.2f"),
            _number(p_values[j], "5.3f"),
            f"[{_number(found.intervals[j, 0])}, {_number(found.intervals[j, 1])}]",
        )
        for j in map(int, shown)
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [f"Coefficients of the features as given, in units of the noise ({kind})"]
    for name, *cells in (heads, *rows):
        aligned = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {name:<{widths[0]}}  {'  '.join(aligned)}")
    lines.insert(2, "  " + "-" * (len(lines[1]) - 2))
    if not np.allclose(whole, found.estimates, rtol=0.05, equal_nan=True):
        each = ", ".join(f"{found.names[j]} {_number(whole[j])}" for j in map(int, shown))
        told = f"which has {each}"
        lines.append(_sentence(f"errors, z and P are of the fit with every constraint, {told}"))
    if len(found) > SHOWN:
        lines.append(f"  and {len(found) - SHOWN} more in `recovery.parameters.frame()`")
    if np.isfinite(recovery.log_likelihood):
        lines.append(_likelihoods(recovery))
        if isinstance(recovery, TripsRecovery):
            shared = 1.0 - (recovery.log_likelihood - found.degrees) / recovery.null_log_likelihood
            lines.append(f"  rho squared {recovery.rho_squared:.4f}, adjusted {shared:.4f}")
    return lines


def _likelihoods(found: Recovery | JointRecovery | MixtureRecovery) -> str:
    return _sentence(
        f"log-likelihood {found.log_likelihood:.6g}, of actions at random "
        f"{found.null_log_likelihood:.6g}; AIC {found.aic:.6g}, BIC {found.bic:.6g}"
    )


def _number(number: float, form: str = ".4g") -> str:
    return "-" if np.isnan(number) else f"{number:{form}}".strip()


def _reward(recovery: Recovery) -> list[str]:
    if not np.isfinite(recovery.reward_weights).all():
        return ["It wants: nothing these demonstrations show; the reward is not identified."]
    intervals = recovery.identification.reward_intervals
    head = "It wants" if (recovery.reward_weights >= 0).any() else "It wants less of"
    return [head, *_features(recovery.reward_names, recovery.reward_weights, intervals)]


def _constraint(recovery: Recovery, k: int, weights: np.ndarray) -> list[str]:
    name = "It refuses" if len(recovery.cost_weights) == 1 else f"It refuses ({k})"
    stand_ins = recovery.identification.set_of(k)
    if not np.isfinite(weights).all() and stand_ins is not None:
        return [f"{name}: perhaps; {stand_ins.name} is active, and the data do not tell which."]
    if not np.isfinite(weights).all():
        return [f"{name}: nothing these demonstrations show; the constraint is not identified."]
    known = recovery.identification
    unit = "reward" if np.isfinite(recovery.reward_weights).all() else "times its noise"
    head = (
        f"{name} more than {recovery.budgets[k]:.4g}{_interval(known.budget_intervals[k])} "
        f"expected discounted cost (one unit more would buy {recovery.multipliers[k]:.4g}"
        f"{_interval(known.multiplier_intervals[k])} {unit}), made of"
    )
    lines = [head, *_features(recovery.cost_names[k], weights, known.cost_intervals[k])]
    stable = recovery.noise_prices
    if np.isfinite(stable.standard_errors[k]):
        told = f"{stable.estimates[k]:.4g}{_interval(stable.intervals[k])}"
        lines.append(f"  its price over the noise, which is in no unit of the reward: {told}")
    if stand_ins is not None:
        lines.append(f"  but {stand_ins.name} is active, and the data do not tell which")
    return lines


def _features(names: Sequence[str], weights: np.ndarray, intervals: np.ndarray) -> list[str]:
    """One line a feature, the heaviest first."""
    order = largest_first(np.abs(weights))
    width = max((len(names[j]) for j in order[:SHOWN]), default=0)
    lines = [
        f"  {names[j]:<{width}}  {weights[j]:8.4f}{_interval(intervals[j])}" for j in order[:SHOWN]
    ]
    if len(order) > SHOWN:
        rest = np.abs(weights[order[SHOWN:]]).sum()
        lines.append(f"  and {len(order) - SHOWN} more, {rest:.4f} together")
    return lines


def _interval(ends: np.ndarray) -> str:
    return "" if np.isnan(ends).any() else f"  [{ends[0]:.4g}, {ends[1]:.4g}]"


def _certificate(recovery: Recovery) -> list[str]:
    c = recovery.certificate
    lines = []
    if recovery.goodness.adequate:  # or not tested, which is said as well
        lines.append(_sentence(recovery.goodness.sentence()[:-1]))
        power = recovery.goodness.power_sentence()
        lines += [_sentence(power[:-1])] if power else []
    if not np.isnan(c.feature_gap):
        line = f"  predicted behaviour differs from the data by {_share(c.feature_gap)}"
        if not np.isnan(c.sampling_noise):
            line += f"; chance alone gives {_share(c.sampling_noise)}"
        lines.append(line)
    if c.truncation > 0:
        most = _share(c.truncation)
        lines.append(f"  trajectories that were cut off account for at most {most}")
    for text, number in (
        ("gradient that no bound holds back", c.projected_gradient),
        ("change of the weights at the end", c.weight_change),
        ("distance of the loss to its optimum, at most", c.objective_gap),
    ):
        if not np.isnan(number):
            lines.append(f"  {text}: {number:.2e}")
    return lines or ["  nothing was measured"]


def _share(number: float) -> str:
    """A share of the data's own size; as a multiple where a percentage would puzzle."""
    if not np.isfinite(number):
        return "an unknown share"
    if number < 1e-4:
        return "0.01 %"
    if number > 1.0:
        return f"{number:.3g} times its size"
    return f"{float(f'{100 * number:.2g}'):g} %"  # 100 and not 1e+02


def _sentence(text: str) -> str:
    """The text as lines of a table's width, each indented like its rows."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _wrapped(line: str) -> str:
    """The line, broken where it is a sentence; what is indented is a table."""
    return line if line.startswith("  ") else textwrap.fill(line, WIDTH)


def data_summary(mdp: MDP, demonstrations: Demonstrations) -> Page:
    """What the demonstrations are, in numbers, for people."""
    lengths = np.diff(demonstrations.offsets)
    counts = demonstrations.counts(mdp)
    reached = np.isin(np.arange(mdp.states), demonstrations.final_states) & mdp.ends
    groups = getattr(demonstrations, "groups", None)
    found: Page = {
        "episodes": demonstrations.episodes,
        "steps": demonstrations.steps,
        "shortest_episode": int(lengths.min()),
        "longest_episode": int(lengths.max()),
        "ended_episodes": int(demonstrations.ended.sum()),
        "episodes_joined_on_the_way": int(demonstrations.partial.sum()),
        "states": mdp.states,
        "states_visited": int((reached | (counts.sum(axis=1) > 0)).sum()),
        "actions": mdp.actions,
        "state_action_pairs_seen": int((counts > 0).sum()),
        "moves_estimated": mdp.evidence is not None,
        "discount": mdp.discount,
    }
    if groups is not None:
        names, sizes = np.unique(np.asarray(groups, dtype=str), return_counts=True)
        found["groups"] = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    return found


def summary_of(problem: Problem) -> Page:
    """What the demonstrations are, in numbers; of trips the goals, too."""
    found = data_summary(problem.mdp, problem.seen)
    if problem.trips is not None:
        goals = problem.trips.goals
        found |= {"goals": len(set(goals[goals >= 0].tolist())), "discount": problem.discount}
    return found
