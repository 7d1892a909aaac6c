"""What every test shares: no window, no randomness, and honest skips."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from browser import Browser, browser
from tacit.engine import keep_compiled_code

# Before anything imports matplotlib: there is no display on a test machine.
os.environ.setdefault("MPLBACKEND", "Agg")

# The test process is our own: what JAX compiles is kept between runs.
keep_compiled_code()

# Derandomised: a failure on one machine is a failure on every machine. No deadline: the first
# example of a new shape pays for its compilation.
settings.register_profile(
    "tacit", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tacit")


def chromium() -> str | None:
    """The path of Debian's browser, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reversed", action="store_true", help="the last test first")
    parser.addoption("--jax-first", action="store_true", help="import JAX before anything else")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--jax-first"):
        import jax  # noqa: F401


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--reversed"):
        items.reverse()
    missing = pytest.mark.skip(reason="chromium is not installed")
    for item in items:
        if item.get_closest_marker("browser") and chromium() is None:
            item.add_marker(missing)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as driver:
        yield driver


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real recordings named by TACIT_DATA; they are not part of the repository."""
    folder = os.environ.get("TACIT_DATA")
    if folder is None:
        pytest.skip("TACIT_DATA does not name the folder of recordings")
    return Path(folder)
