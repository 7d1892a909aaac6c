"""Refusals: one line of the kind asked for, which says what to mend."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

Kind = type[Exception] | tuple[type[Exception], ...]


@contextmanager
def refusal(
    kind: Kind, *words: str, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """What is done inside is refused in one line, with all these words in it."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def refused(call: Callable[[], object], *words: str, kind: Kind) -> str:
    """The line with which a call is refused."""
    with refusal(kind, *words) as caught:
        call()
    return str(caught.value)
