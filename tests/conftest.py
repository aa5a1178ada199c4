"""What every test shares: paths, a headless figure backend, and Hypothesis settings."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from forecache.sim import processes

pytest_plugins = ["tests.live_engine", "tests.turns"]

# Set before anything imports matplotlib: no test may need a display.
os.environ.setdefault("MPLBACKEND", "Agg")
# Nor NumPy: threads of its own wait for each other where another test has the core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The first example may simulate what others share, so time per example says nothing. `ci` repeats
# the same examples in every run; `HYPOTHESIS_PROFILE=explore` looks for new ones.
_SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, suppress_health_check=_SLOW
)
settings.register_profile(
    "explore", deadline=None, max_examples=500, suppress_health_check=_SLOW, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

ROOT = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    """What has been imported and collected stays, so that looking for garbage may leave it out."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a run keeps for the next one, it keeps for the tests only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _in_this_process() -> Iterator[None]:
    """Tests run beside each other, so that an answer has one core unless it asks for more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout the tests run from."""
    return ROOT
