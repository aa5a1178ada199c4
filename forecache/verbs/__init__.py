"""The verbs of the command line as Python functions.

Each one is thin: it imports the room that does the work when it is called, so that importing
`forecache` is quick, and passes plain arguments on. Scenarios, datasets and bundles are paths; a
scenario may also be a mapping of the same shape as the file, in which lists may be ranges, arrays
or series, and numbers NumPy's. What each verb says under Returns also stands in `docs/cli.md`, as
the shape of what `--json` prints: that is what `to_dict` of the result returns. `catalog` returns a
plain dictionary.

`progress` is called with one sentence for every step of long work; None keeps it silent, but in a
notebook, where it is a bar.
"""

from .capacity import cost, memory, plan
from .lookups import catalog, doctor
from .measurements import calibrate, check, observe, profile, recipe, validate
from .predictions import compare, explain, explore, recommend, simulate, sweep
from .shared import DEFAULT_SEED
from .studies import report, study

__all__ = [
    "DEFAULT_SEED",
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
    "recipe",
    "recommend",
    "report",
    "simulate",
    "study",
    "sweep",
    "validate",
]
