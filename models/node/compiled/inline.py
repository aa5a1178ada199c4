"""How the compiled execution is compiled: all functions of a policy are inlined into one.

Numba's cache looks at the file of the function it loads, not at those of the functions that went
into it. `sources_digest` identifies all of them; a `run` function holds it as a closure variable,
which is part of the cache's key.
"""

import hashlib
from pathlib import Path
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

COMPILED_ONLY: Any = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""For functions that only other compiled functions call: they are not cached, and no wrappers to
call them from Python are made. Numba's type hints don't have these options."""

inlined: Any = njit(forceinline=True, **COMPILED_ONLY)
"""For most of them: they are inlined into the function that calls them."""


@intrinsic
def unlikely(typing_context: Any, condition: Any) -> Any:
    """The condition, with a hint to the compiler that it rarely holds."""
    del typing_context, condition

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        bit = ir.IntType(1)
        expects = ir.FunctionType(bit, [bit, bit])
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], expects)
        return builder.call(expect, [arguments[0], ir.Constant(bit, 0)])

    return types.boolean(types.boolean), generate


_NODE = Path(__file__).resolve().parent.parent
_SIM = ("calendar", "histogram", "pointer", "stamped_rings", "streams")


def sources_digest() -> int:
    """A number that changes with any source file of the compiled execution."""
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
