"""forecache predicts how an in-memory key-value engine scales on given hardware.

The rooms `sim`, `hwprofiles`, `models`, `calibration` and `reports` stand beside this folder in a
checkout and inside it once installed. In a checkout `__path__` is extended by the folder that
holds them, so that `import forecache.sim` means the same in both.

Every verb of the command line is a function of the same name here: `forecache.simulate(...)`,
`forecache.recommend(...)`. They are loaded on first use, so `import forecache` stays quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .verbs import (
        calibrate,
        catalog,
        check,
        compare,
        cost,
        doctor,
        explain,
        explore,
        memory,
        observe,
        plan,
        profile,
        recommend,
        report,
        simulate,
        study,
        sweep,
        validate,
    )

_parent = Path(__file__).resolve().parent.parent
if not (Path(__file__).resolve().parent / "sim").is_dir() and (_parent / "sim").is_dir():
    __path__.append(str(_parent))

from .models.results.displayed import display_with  # noqa: E402
from .sim.cache_folders import prepare  # noqa: E402

prepare()  # before anything imports Matplotlib


def _display() -> Any:
    from .notebook import AnswerDisplay

    return AnswerDisplay()


display_with(_display)

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "calibrate",
    "catalog",
    "check",
    "compare",
    "cost",
    "doctor",
    "explain",
    "explore",
    "memory",
    "observe",
    "plan",
    "profile",
    "recommend",
    "report",
    "simulate",
    "study",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import verbs

        function = getattr(verbs, name)
        globals()[name] = function
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
