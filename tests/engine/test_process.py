"""The user's process is left alone: no setting of JAX changes, and nothing of theirs is kept."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
import tacit

cache = Path(sys.argv[1])
settings = lambda: {name: repr(value) for name, value in jax.config.values.items()}
mine = jax.jit(lambda x: x * 2.0 + 1.0)
before, dtype = settings(), str(mine(jnp.ones(3)).dtype)

world = tacit.worlds.hill_grid(seed=0)
seen = tacit.simulate(world.mdp, np.full((25, 4), 0.25), trajectories=20, steps=50, seed=0)
tacit.recover(world.mdp, world.features, seen, estimator=tacit.Likelihood(), throw=False)

other = jax.jit(lambda x: jnp.sin(x) + 1.0)
print(json.dumps({
    "dtypes": [dtype, str(mine(jnp.ones(3)).dtype), str(other(np.ones(4)).dtype)],
    "changed": [name for name, value in settings().items() if value != before[name]],
    "files": [str(path) for path in cache.rglob("*")],
}))
if len(sys.argv) > 2:
    kept = tacit.scale.keep_compiled_code()
    other(np.ones(5))
    print(json.dumps([str(kept), len(list(kept.iterdir()))]))
"""


def ran(folder, *more):
    hidden = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    clean |= {"XDG_CACHE_HOME": str(folder), "HOME": str(folder)}
    command = [sys.executable, "-c", PROGRAM, str(folder), *more]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return ran(tmp_path_factory.mktemp("cache"), "keep")


def test_a_users_function_keeps_its_precision(answers):
    assert answers[0]["dtypes"] == ["float32"] * 3


def test_no_setting_of_jax_changes(answers):
    assert answers[0]["changed"] == []


def test_nothing_is_written_to_a_cache(answers):
    assert answers[0]["files"] == []


def test_whoever_asks_keeps_compiled_code(answers):
    folder, files = answers[1]
    assert folder.endswith(os.path.join("tacit", "jax"))
    assert files > 0
