"""Many recoveries: a batch of one shape in one call, and tasks each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.engine.process import each
from tacit.engine.progress import Callback, Event
from tacit.errors import InvalidModel
from tacit.inverse.batch import Batch, recover_many
from tacit.inverse.joint.tasks import Task
from tacit.inverse.recover import Estimator, recover
from tacit.inverse.recovery import Recovery


def recover_each(
    tasks: Iterable[Task],
    *,
    estimator: Estimator | Sequence[Estimator] | None = None,
    workers: int | None = None,
    callbacks: Sequence[Callback] = (),
    allow_impossible: bool = False,
) -> list[Recovery]:
    """The `Recovery` of every task, in their order; each says by its status how it ended.

    Tasks may differ in everything: world, features, size. They share nothing, unlike those of
    `recover`, and are not in step, unlike those of `recover_many`.

    Args:
        tasks: what to recover; a sweep or resampled demonstrations are such lists, too.
        estimator: how; one for all, or one a task. None picks by evidence.
        workers: processes; None for what joblib was told, or one per core if nothing. A cluster
            decides by itself.
        callbacks: called with a `tacit.progress.Event` whenever one more is done, in the order of
            the tasks.
        allow_impossible: let moves of probability 0 pass as findings, as `recover` does.
    """
    tasks = list(tasks)
    for task in tasks:
        if not isinstance(task, Task):
            raise InvalidModel(f"tasks must be of type Task; got {type(task).__name__}")
    estimators = list(estimator) if isinstance(estimator, Sequence) else [estimator] * len(tasks)
    if len(estimators) != len(tasks):
        raise InvalidModel(
            f"there must be one estimator, or one a task ({len(tasks)}); got {len(estimators)}"
        )
    found: list[Recovery] = []
    allowed = [allow_impossible] * len(tasks)
    pieces = zip(tasks, estimators, allowed, strict=True)
    for recovery in each(_recovered, pieces, workers=workers):
        found.append(recovery)
        for callback in callbacks:
            callback(Event("tasks", len(found), {"of": float(len(tasks))}))
    return found


def _recovered(task: Task, estimator: Estimator | None, allow_impossible: bool) -> Recovery:
    return recover(
        task.mdp,
        task.features,
        task.demonstrations,
        estimator=estimator,
        allow_impossible=allow_impossible,
        throw=False,
    )


__all__ = ["Batch", "recover_each", "recover_many"]
