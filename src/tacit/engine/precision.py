"""The one place that sets JAX up: float64 for our own computations, compiled code kept on disk.

JAX costs about a second to import and defaults to float32, so it is imported by the modules that
need it, never by `import tacit`, and double precision is switched on around our own calls only:
a user's other JAX code keeps its settings.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np


def compiled_in_double(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function under `jax.jit`, traced and called with 64-bit numbers.

    Its first argument is the world. A world on NumPy arrays runs the same function step by step; a
    world on many devices places the arguments there, by their names, and fetches the results.
    """
    if function is None:
        return functools.partial(compiled_in_double, **options)
    traced = jax.jit(function, **options)
    names = tuple(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(world: Any, *arguments: Any, **keywords: Any) -> Any:
        if world.arrays is np:
            return function(world, *arguments, **keywords)
        _keep_compiled_code()
        with jax.enable_x64(True):
            if hasattr(world, "place"):
                placed = [world.place(n, a) for n, a in zip(names, arguments, strict=False)]
                keywords = {n: world.place(n, a) for n, a in keywords.items()}
                return world.fetch(traced(world, *placed, **keywords))
            # NumPy arrays come back: a stray JAX operation outside would fall to float32.
            return jax.tree.map(np.asarray, traced(world, *arguments, **keywords))

    return call


@functools.cache
def _keep_compiled_code() -> None:
    """Keeps compiled code on disk between processes, unless the user has chosen a place already."""
    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home) / "tacit" / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        return  # no home, or a read-only one: compile anew each time
    if writable:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        # The default keeps only what took a second to compile; ours are many and small.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
