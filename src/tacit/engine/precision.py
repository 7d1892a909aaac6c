"""The one place that sets JAX up: float64 for our own computations, and nothing else.

JAX costs about a second to import and defaults to float32, so it is imported by the modules that
need it, never by `import tacit`, and double precision is switched on around our own calls only:
a user's other JAX code keeps its settings.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def compiled_in_double(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function under `jax.jit`, traced and called with 64-bit numbers.

    Its first argument is the backend. One on NumPy arrays runs the same function step by step; one
    on many devices places the arguments there, by their names, and fetches the results.
    """
    if function is None:
        return functools.partial(compiled_in_double, **options)
    traced = jax.jit(function, **options)
    names = tuple(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(backend: Any, *arguments: Any, **keywords: Any) -> Any:
        if backend.arrays is np:
            return function(backend, *arguments, **keywords)
        with jax.enable_x64(True):
            if hasattr(backend, "place"):
                placed = [backend.place(n, a) for n, a in zip(names, arguments, strict=False)]
                keywords = {n: backend.place(n, a) for n, a in keywords.items()}
                return backend.fetch(traced(backend, *placed, **keywords))
            # NumPy arrays come back: a stray JAX operation outside would fall to float32.
            return jax.tree.map(np.asarray, traced(backend, *arguments, **keywords))

    return call
