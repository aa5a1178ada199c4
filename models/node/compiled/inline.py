"""How the compiled execution is compiled: all functions of a policy become one.

Numba's cache looks at the file of the function it loads, not at those of the functions that went
into it. `sources_digest` identifies all of them; a `run` function holds it as a closure variable,
which is part of the cache's key.
"""

import hashlib
from pathlib import Path
from typing import Any

from numba import njit

inlined: Any = njit(  # type: ignore[call-overload]
    forceinline=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""For functions that only other compiled functions call: they leave nothing in the cache, and
wrappers to call them from Python, which Numba's type hints don't know of, are not made."""

_NODE = Path(__file__).resolve().parent.parent
_SIM = ("calendar", "histogram", "pointer", "stamped_rings", "streams")


def sources_digest() -> int:
    """A number that changes with any source the compiled execution is made of."""
    from forecache import sim

    room = Path(next(iter(sim.__path__)))
    digest = hashlib.sha256()
    for path in [
        *sorted((_NODE / "compiled").glob("*.py")),
        _NODE / "layout.py",
        _NODE / "setup.py",
        *(room / f"{name}.py" for name in _SIM),
    ]:
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
