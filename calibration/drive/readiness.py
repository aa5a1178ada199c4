"""What an observation needs, looked for in the first second instead of after minutes.

Imports nothing that takes long, so that a check before everything else is immediate.
"""

from pathlib import Path

from forecache.models.engines.profile import EngineProfile, load_engine

from .engine_process import engine_version, find_engine
from .server_kinds import server_kind


def check_ready(engine: str | Path | None) -> EngineProfile:
    """The rules of the engine to observe, after making sure that it can be observed here.

    Parameters
    ----------
    engine
        As in `find_engine`.

    Raises
    ------
    InputError
        The machine can't be profiled, no program has the engine's name, or no profile has the
        rules of its version.
    EngineError
        The embedded engine is missing, or the engine doesn't say its version or doesn't start.
    """
    binary = find_engine(engine)
    rules = load_engine(*engine_version(binary))
    # Brings SciPy along, which takes half a second to import.
    from forecache.hwprofiles.capture.machine import inspect_machine

    inspect_machine()
    with server_kind(binary)(binary, io_threads=1):
        return rules
