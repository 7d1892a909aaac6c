"""Newton's step on the smooth dual, within its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.forward.world import World

if TYPE_CHECKING:
    from tacit.forward.smooth_dual import Point, Problem


def newton_step(world: World, problem: Problem, point: Point) -> Any:
    """[D] the step from a point, never far beyond doubling a coordinate.

    Goes to the minimum of the quadratic model; a coordinate that meets its bound on the way stays
    there, and the others go on. The model falls along every leg, so the step as a whole leads
    downhill; clipping the plain Newton step would bend it, at times uphill.
    """
    xp = world.arrays
    low, high = problem.lower - point.x, problem.upper - point.x
    free = ((low < 0) | (point.gradient < 0)) & ((high > 0) | (point.gradient > 0))
    longest = 2.0 * xp.abs(point.x) + problem.unit
    diagonal = xp.diagonal(point.curvature)
    # A coordinate that the policy does not react to yet still goes downhill; directions without
    # any information stay where they are.
    steep = xp.abs(point.gradient) / longest
    ridge = xp.where(diagonal > 0, 1e-10 * diagonal, xp.where(steep > 0, steep, 1.0))
    model = point.curvature + xp.diag(ridge)

    def leg(state: Any) -> Any:
        direction, free, _, legs = state
        both = free[:, None] & free[None, :]
        held = xp.diag(xp.where(free, 0.0, 1.0))
        slope = point.gradient + model @ direction
        move = world.linear_solve(xp.where(both, model, 0.0) + held, -xp.where(free, slope, 0.0))
        room = xp.where(move < 0, low - direction, high - direction)
        share = xp.where(move != 0, room / xp.where(move != 0, move, 1.0), xp.inf)
        length = xp.minimum(1.0, share.min())
        blocked = free & (share <= length) & (length < 1.0)
        bound = xp.where(move < 0, low, high)
        direction = xp.where(blocked, bound, direction + length * move)
        return direction, free & xp.logical_not(blocked), length < 1.0, legs + 1

    # Every leg but the last ends at a bound, so there are no more than coordinates and one.
    start = (xp.zeros_like(point.x), free, True, 0)
    direction, *_ = world.while_loop(lambda s: s[2] & (s[3] <= len(point.x)), leg, start)
    # Shorten the step as a whole: shortening coordinates would bend it away from descent.
    return direction / xp.maximum(1.0, xp.max(xp.abs(direction) / longest))
