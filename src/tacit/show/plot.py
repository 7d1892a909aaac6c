"""Pictures of a recovery by one call each, on axes of yours or on new ones.

Every function gives the axes it drew on, so that titles and limits can be changed afterwards:

    axes = tacit.plot.weights(recovery)
    axes.figure.savefig("weights.pdf")

States are drawn where they lie if a `layout` says so (that of a world or of a run), and as sorted
bars if not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.errors import InvalidModel
from tacit.inference.parameters import CONFIDENCE
from tacit.inference.standardised import in_one_unit
from tacit.model.layout import Layout
from tacit.recovery import Recovery
from tacit.search.algebra import largest_first
from tacit.show import anchor
from tacit.show.arrows import draw_flow_lines, draw_policy, has_ways
from tacit.show.bands import draw_curve, draw_partial_effect, partial_effects
from tacit.show.canvas import (
    COLUMN,
    COST_MAP,
    INK,
    MUTED,
    REWARD_MAP,
    ROW,
    VISIT_MAP,
    axes_at,
    figure_of,
    legend_above,
    new_figure,
    plain,
    row_axes,
    series_colour,
    styled,
)
from tacit.show.drawn import (
    history_table,
    intervals_table,
    pairs_table,
    states_table,
    with_table,
)
from tacit.show.grid import draw_values, extent
from tacit.show.intentions import draw_chances, draw_path, draw_strips
from tacit.show.intervals import draw_beside, draw_level, tidy_rows, tidy_values
from tacit.show.network import draw_network, is_network
from tacit.show.quantities import MOST_ROWS, Group, NamedRecovery

if TYPE_CHECKING:
    from tacit.checks.heterogeneity import Individuals
    from tacit.checks.prices import PriceCurve
    from tacit.estimators.intentions import IntentionsRecovery
    from tacit.folders.runs import Run
    from tacit.inference.curves import Curve
    from tacit.stream.watch import Watch

__all__ = [
    "curve",
    "evidence",
    "flows",
    "individuals",
    "intentions",
    "map",
    "overview",
    "partial_effect",
    "policy",
    "price_curve",
    "prices",
    "residuals",
    "weights",
]


def __dir__() -> list[str]:
    """What is in this namespace."""
    return sorted(__all__)


Recoveries = Mapping[str, Recovery]
Panel = tuple[Callable[..., Axes], float]  # what draws on given axes, and their height in inches
MOST_NAMED = 60  # individuals that have a name beside their row
WEIGHTS, PRICES = "weight, of sum 1 in each group", "price of one more unit of the budget"


def _weight_groups(
    recoveries: Recovery | Recoveries, *, raw_units: bool = False
) -> dict[str, Group]:
    each = _each(recoveries, raw_units=raw_units)
    return {who: one.weight_rows() for who, one in each.items()}


def _price_groups(
    recoveries: Recovery | Recoveries, *, raw_units: bool = False
) -> dict[str, Group]:
    each = _each(recoveries, raw_units=raw_units)
    return {who: one.price_rows for who, one in each.items()}


@with_table(lambda *args, **about: intervals_table(_weight_groups(*args, **about)))
def weights(
    recoveries: Recovery | Recoveries, axes: Axes | None = None, *, raw_units: bool = False
) -> Axes:
    """The axes, with every weight and its interval: what is wanted, then what is refused.

    Args:
        recoveries: what was recovered; or name -> recovery, a mark for each, beside each other.
        axes: what to draw on; a new figure unless given.
        raw_units: draw the weights of the features as given, and not of standardised ones.
    """
    return draw_beside(_weight_groups(recoveries, raw_units=raw_units), axes, WEIGHTS)


@with_table(lambda *args, **about: intervals_table(_price_groups(*args, **about)))
def prices(
    recoveries: Recovery | Recoveries, axes: Axes | None = None, *, raw_units: bool = False
) -> Axes:
    """The axes, with the price of every budget and its interval; one not held back is at 0.

    Of one recovery or of several, and in units, as in `weights`.
    """
    return draw_beside(_price_groups(recoveries, raw_units=raw_units), axes, PRICES)


def _mapped(named: NamedRecovery, what: str | int) -> tuple[np.ndarray, str, str]:
    """[S] the numbers of a map, their colours and what they are."""
    known = {
        "reward": (named.reward, REWARD_MAP, "reward"),
        "visits": (100.0 * named.time, VISIT_MAP, "share of its time, in %"),
        **{k: (cost, COST_MAP, named.cost_title(k)) for k, cost in enumerate(named.costs)},
    }
    if isinstance(what, bool) or what not in known:
        raise InvalidModel(
            f"what must be 'reward', 'visits' or a constraint below {named.constraints}; "
            f"got {what!r:.60}"
        )
    return known[what]


def _map_table(
    recovery: Recovery, what: str | int = "reward", *, layout: Layout | None = None
) -> dict[str, Any]:
    named = _named(recovery, layout)
    return states_table(named, _mapped(named, what)[0])


@with_table(_map_table)
@styled()
def map(  # noqa: A001
    recovery: Recovery,
    what: str | int = "reward",
    axes: Axes | None = None,
    *,
    layout: Layout | None = None,
) -> Axes:
    """The axes, with a number for each state as the colour of its cell, or as bars.

    Args:
        recovery: what was recovered.
        what: "reward", "visits" (share of time, in %), or the number of a constraint: its cost.
        axes: what to draw on; a new figure unless given.
        layout: where the states lie.
    """
    named = _named(recovery, layout)
    values, colours, title = _mapped(named, what)
    if not named.layout.is_map:
        return _bars(named, values, axes, title)
    axes = _panel(named, axes)
    draw_values(values, axes, layout=named.layout, colours=colours)
    axes.set_title(plain(title))
    return axes


def _policy_table(recovery: Recovery, *, layout: Layout | None = None) -> dict[str, Any]:
    named = _named(recovery, layout)
    return pairs_table(named, np.where(named.offered, named.policy, np.nan), "probability")


@with_table(_policy_table)
@styled()
def policy(recovery: Recovery, axes: Axes | None = None, *, layout: Layout | None = None) -> Axes:
    """The axes, with what is done in each state: arrows as long as they are likely, or bars.

    A ring is a state without a preference; hatching, one where no demonstration was.
    """
    named = _named(recovery, layout)
    if named.layout.is_map:
        axes = _panel(named, axes)
        hatched = {"unseen": named.unseen, "assumed": named.assumed}
        draw_policy(named.policy, axes, layout=named.layout, **hatched)
        axes.set_title("policy")
        return axes
    order = largest_first(named.time)[:MOST_ROWS]
    axes = row_axes(axes, len(order), [named.state(s) for s in order])
    begun = np.zeros(len(order))
    for a in range(named.actions):
        look = {"left": begun, "color": series_colour(a), "height": 0.7, "label": named.action(a)}
        axes.barh(range(len(order)), named.policy[order, a], **look)
        begun = begun + named.policy[order, a]
    axes.legend(**legend_above(named.actions))
    axes.set_xlim(0, 1)
    axes.set_xlabel("chance of each action")
    return axes


def _flow_table(recovery: Recovery, *, layout: Layout) -> dict[str, Any]:
    named = _named(recovery, layout)
    return pairs_table(named, np.where(named.offered, named.visits, np.nan), "flow")


@with_table(_flow_table)
@styled()
def flows(recovery: Recovery, axes: Axes | None = None, *, layout: Layout) -> Axes:
    """The axes, with how often each move is made: lines as wide as the flow over them.

    Args:
        recovery: what was recovered.
        axes: what to draw on; a new figure unless given.
        layout: where the states lie and where the actions point.
    """
    named = _named(recovery, layout)
    if not has_ways(layout):
        raise InvalidModel("flows needs a map whose actions point somewhere: layout.directions")
    axes = _panel(named, axes)
    if is_network(named):
        return draw_network(named, axes)
    time = 100.0 * named.time
    light = (0.0, 2.5 * float(time.max(initial=0.0)) or 1.0)  # lines must be seen on it
    draw_values(time, axes, layout=layout, colours=VISIT_MAP, limits=light)
    for text in list(axes.texts):
        text.remove()
    draw_flow_lines(named.visits, axes, layout)
    axes.set_title("flows")
    return axes


def _residual_table(recovery: Recovery, *, layout: Layout | None = None) -> dict[str, Any]:
    return pairs_table(_named(recovery, layout), recovery.goodness.residuals, "residual")


@with_table(_residual_table)
@styled()
def residuals(
    recovery: Recovery, axes: Axes | None = None, *, layout: Layout | None = None
) -> Axes:
    """The axes, with the state-action pairs at which the model fails most, the worst on top.

    A bar to the right was done more often than the model says, one to the left less often; beyond
    the dashed lines at 2 it is seldom chance.
    """
    named, table = _named(recovery, layout), recovery.goodness.residuals
    if not np.isfinite(table).any():
        reason = recovery.goodness.absence or "no residuals are known"
        raise InvalidModel(f"residuals needs a recovery whose fit was tested; {reason}")
    order = largest_first(np.abs(np.nan_to_num(table)))[: MOST_ROWS // 2]
    pairs = [divmod(int(at), table.shape[1]) for at in order]
    names = [f"{named.state(s)}: {named.action(a)}" for s, a in pairs]
    axes = row_axes(axes, len(pairs), names)
    values = [float(np.nan_to_num(table[s, a])) for s, a in pairs]
    axes.barh(range(len(pairs)), values, color=series_colour(0), height=0.7)
    for level in (-2.0, 2.0):
        axes.axvline(level, color=MUTED, lw=0.8, ls=(0, (4, 3)))
    axes.set_xlabel("(seen - expected) / its standard deviation")
    return axes


def _intentions_table(
    recovery: IntentionsRecovery, trajectory: int | None = None, *, layout: Layout | None = None
) -> dict[str, Any]:
    lengths = np.diff(recovery.offsets)
    steps = {
        "trajectory": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.arange(len(recovery.states)) - np.repeat(recovery.offsets[:-1], lengths),
        "state": recovery.states,
        **{f"intention {k}": own for k, own in enumerate(recovery.following.T)},
    }
    which = steps["trajectory"] == trajectory if trajectory is not None else slice(None)
    return {name: column[which] for name, column in steps.items()}


@with_table(_intentions_table)
@styled()
def intentions(
    recovery: IntentionsRecovery,
    trajectory: int | None = None,
    axes: Axes | None = None,
    *,
    layout: Layout | None = None,
) -> Axes:
    """The axes, with the steps of trajectories in the colours of the intentions they follow.

    Args:
        recovery: the intentions.
        trajectory: the number of one, whose way is drawn on the map, or its chances where there is
            none; None for a row for each of those that switch most.
        axes: what to draw on; a new figure unless given.
        layout: where the states lie.
    """
    if trajectory is None:
        return draw_strips(recovery, axes)
    last = len(recovery.offsets) - 2
    if not 0 <= trajectory <= last:
        raise InvalidModel(f"trajectory must be from 0 to {last}; got {trajectory!r:.60}")
    if layout is not None and layout.is_map:
        return draw_path(recovery, trajectory, axes, layout=layout)
    return draw_chances(recovery, trajectory, axes)


@with_table(lambda watch: history_table(*watch.history.T))
@styled()
def evidence(watch: Watch, axes: Axes | None = None) -> Axes:
    """The axes, with the evidence of a watch against the steps, and where it gives an alarm."""
    axes = axes_at(new_figure(COLUMN, 2.4), 0.6, 0.2, COLUMN - 0.75, 1.7) if axes is None else axes
    steps, logs = watch.history.T
    axes.plot(steps, 10.0 ** np.clip(logs, -300.0, 300.0), color=series_colour(0), lw=1.4)
    axes.set_yscale("log")
    axes.set_xlabel("steps")
    axes.set_ylabel("evidence of a change")
    draw_level(axes, watch.run_length, "alarm", INK)
    if watch.since is not None:
        axes.axvline(watch.since, color=MUTED, lw=0.8, ls=(0, (4, 3)))
    return axes


@with_table(lambda curve: {"budget": curve.budgets, "price": curve.multipliers})
@styled()
def price_curve(curve: PriceCurve, axes: Axes | None = None) -> Axes:
    """The axes, with the price of a budget against the budget; made by `checks.price_curve`."""
    axes = axes_at(new_figure(COLUMN, 2.4), 0.6, 0.2, COLUMN - 0.75, 1.7) if axes is None else axes
    axes.plot(curve.budgets, curve.multipliers, color=series_colour(0), lw=1.4, marker="o", ms=3)
    axes.set_xlabel(f"budget of constraint {curve.constraint}")
    axes.set_ylabel("price of one more unit")
    axes.set_ylim(bottom=0.0)
    tidy_values(axes)
    return axes


@with_table(lambda recovered, **about: recovered.frame(**about).to_dict())
def curve(recovered: Curve, axes: Axes | None = None, *, simultaneous: bool = False) -> Axes:
    """The axes, with a curve, its band and where the steps are; of a surface a map.

    Args:
        recovered: one of `recovery.curves`.
        axes: what to draw on; a new figure unless given.
        simultaneous: whether the band holds the whole curve, not each value for itself.
    """
    return draw_curve(recovered, axes, simultaneous=simultaneous)


def _partial_table(
    recovery: Recovery, feature: str, *, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    found = partial_effects(recovery, feature, confidence=confidence)
    names = ("values", "effects", "lower", "upper", "density")
    heads = (feature, "effect", "lower", "upper", "density")
    return dict(zip(heads, (getattr(found, name) for name in names), strict=True))


@with_table(_partial_table)
def partial_effect(
    recovery: Recovery,
    feature: str,
    axes: Axes | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Axes:
    """The axes, with what a feature adds to the utility over its range, and its band.

    In units of the noise and relative to its mean where steps were: e to it is how much likelier
    an action is that pays so at once. Of curves `curve` is the picture.

    Args:
        recovery: of states; it must know its features.
        feature: name of a coefficient.
        axes: what to draw on; a new figure unless given.
        confidence: of the band.
    """
    return draw_partial_effect(partial_effects(recovery, feature, confidence=confidence), axes)


def _individual_table(found: Individuals, feature: str) -> dict[str, Any]:
    frame = found.individual_frame()
    own = frame.filter(frame["name"] == found.varying_name(feature))
    return own.sort("estimate").drop("name").to_dict()


@with_table(_individual_table)
@styled()
def individuals(found: Individuals, feature: str, axes: Axes | None = None) -> Axes:
    """The axes, with one coefficient of every individual and its interval, the smallest on top.

    Estimates are shrunken towards the mean of the population, the upright line; the shade around it
    is one standard deviation between individuals.

    Args:
        found: made by `checks.individuals`.
        feature: name of a coefficient that varies.
        axes: what to draw on; a new figure unless given.
    """
    number = found.names.index(found.varying_name(feature))
    order = np.argsort(found.estimates[:, number], kind="stable")
    many = len(order)
    height = ROW if many <= MOST_ROWS else ROW * MOST_ROWS / many
    labels = [found.individuals[g] if many <= MOST_NAMED else "" for g in order.tolist()]
    axes = row_axes(axes, many, labels, each=height)
    mean, spread = float(found.means[number]), float(found.spreads[number])
    axes.axvspan(mean - spread, mean + spread, color=MUTED, alpha=0.15, lw=0)
    axes.axvline(mean, color=MUTED, lw=1.0)
    ends = found.estimate_intervals[order, number]
    colour = series_colour(0)
    axes.hlines(range(many), *ends.T, color=colour, lw=min(3.0, 40.0 * height), alpha=0.5)
    axes.plot(found.estimates[order, number], range(many), ls="", marker="o", ms=4, color=colour)
    axes.set_xlabel(plain(f"{feature}, in units of the noise"))
    tidy_rows(axes, many)
    return axes


def _overview_table(
    recoveries: Recovery | Recoveries,
    *,
    layout: Layout | None = None,
    shares: Group | None = None,
    shared: str = "",
) -> dict[str, Any]:
    prices = _price_groups(recoveries)
    return intervals_table(
        {who: {**own, **prices[who]} for who, own in _weight_groups(recoveries).items()}
    )


@with_table(_overview_table)
def overview(
    recoveries: Recovery | Recoveries,
    *,
    layout: Layout | None = None,
    shares: Group | None = None,
    shared: str = "share of the trajectories",
) -> Figure:
    """One figure of weights and prices, of several beside each other; of one on a map also maps.

    Args:
        recoveries: what was recovered, or name -> recovery.
        layout: where the states lie.
        shares: name -> the share of each, where they have shares.
        shared: what those are of.
    """
    return overview_of(_each(recoveries, layout), shares, shared)


def overview_of(
    each: Mapping[str, NamedRecovery],
    shares: Group | None = None,
    shared: str = "share of the trajectories",
) -> Figure:
    """The `overview` of recoveries in the units to show."""
    is_alone, first = len(each) == 1, next(iter(each.values()))
    # A lone weight is 1 by the gauge: there is nothing to compare.
    weights = {who: one.weight_rows(lone=is_alone) for who, one in each.items()}
    groups: dict[str, Mapping[str, Group]] = {
        shared: {"": shares or {}},
        WEIGHTS: weights,
        PRICES: {who: one.price_rows for who, one in each.items()},
    }
    names, panels = [""], list[Panel]()
    if is_alone and not any(weights.values()) and first.recovery.solution is not None:
        # An answer without weights is a policy.
        panels.append((partial(policy, first.recovery), ROW * min(MOST_ROWS, first.states)))
    for label, group in groups.items():
        if rows := {name for one in group.values() for name in one}:
            names += rows
            height = max(0.5, min(MOST_ROWS, len(rows)) * max(ROW, 0.11 * len(group)))
            panels.append((partial(draw_beside, group, label=label), height))
    if not panels:
        raise InvalidModel("nothing here was identified, so there is nothing to draw")
    maps = (map, policy) if is_alone and first.layout.is_map else ()
    left = float(np.clip(0.075 * max(len(name) for name in names) + 0.15, 0.5, 2.2))
    wide = 2 * COLUMN if maps else max(COLUMN, left + 2.5)
    square, tall = 0.5 * (wide - 0.9), sum(height + 0.95 for _, height in panels)
    figure, top = new_figure(wide, tall + (square + 0.5 if maps else 0.0)), 0.4
    for draw, height in panels:
        draw(axes=axes_at(figure, left, top, wide - left - 0.2, height))
        top += height + 0.95
    for k, draw in enumerate(maps):
        axes = axes_at(figure, 0.4 + k * (square + 0.3), top, square, square)
        draw(first.recovery, axes=axes, layout=first.layout).set_aspect("auto")
    return figure


# ------------------------------------------------------------------------------- parts


def _each(
    recoveries: Recovery | Recoveries, layout: Layout | None = None, *, raw_units: bool = False
) -> dict[str, NamedRecovery]:
    """Name -> recovery in one unit; the name of one alone is empty."""
    each = recoveries if isinstance(recoveries, Mapping) else {"": recoveries}
    for one in each.values():
        if not hasattr(one, "reward_weights"):
            raise InvalidModel(f"a Recovery must be given; got {type(one).__name__}")
    alike = in_one_unit(each, raw_units=raw_units)
    return {who: NamedRecovery(one, layout or Layout()) for who, one in alike.items()}


def _named(recovery: Recovery, layout: Layout | None) -> NamedRecovery:
    return _each(recovery, layout)[""]


@styled()
def _panel(named: NamedRecovery, axes: Axes | None) -> Axes:
    """Axes with the shape of the grid."""
    if axes is not None:
        return axes
    width = COLUMN - 0.4
    (left, right), (bottom, top) = extent(named.layout)
    height = float(np.clip(width * abs(top - bottom) / (right - left), 1.0, 7.0))
    return axes_at(new_figure(COLUMN, height + 0.6), 0.3, 0.3, width, height)


@styled()
def _bars(named: NamedRecovery, values: np.ndarray, axes: Axes | None, title: str) -> Axes:
    """The highest and the lowest states as bars."""
    order = largest_first(values)
    if len(order) > MOST_ROWS:
        order = np.concatenate([order[: MOST_ROWS - 6], order[-6:]])
        title += f" ({len(order)} of {len(values)} states)"
    axes = row_axes(axes, len(order), [named.state(s) for s in order])
    axes.barh(range(len(order)), values[order], color=series_colour(0), height=0.7)
    axes.set_xlabel(plain(title))
    return axes


def every_figure(run: Run) -> dict[str, Figure]:
    """Name -> figure, every picture that a run has numbers for."""
    recovery, layout = run.recovery, run.layout
    if hasattr(recovery, "types") or hasattr(recovery, "recoveries"):
        return {"beside": recovery.plot()}
    named = _named(recovery, layout)
    drawn: dict[str, Axes] = {}
    if named.weight_rows():
        drawn["weights"] = weights(recovery)
    if named.constraints:
        drawn["prices"] = prices(recovery)
    for one in recovery.curves:
        drawn[anchor(f"curve {one.title}")] = curve(one)
    drawn["reward"] = map(recovery, layout=layout)
    for k in np.flatnonzero(named.identified).tolist():
        drawn[f"cost-{k}"] = map(recovery, k, layout=layout)
    drawn["policy"] = policy(recovery, layout=layout)
    drawn["visits"] = map(recovery, "visits", layout=layout)
    if has_ways(layout):
        drawn["flows"] = flows(recovery, layout=layout)
    if np.isfinite(recovery.goodness.residuals).any():
        drawn["residuals"] = residuals(recovery, layout=layout)
    return {name: figure_of(axes) for name, axes in drawn.items()}
