"""Imported once by the process that others are forked from: they then begin with everything read.

Besides what `job.py` imports, that is compiled code, profiles and tables of the catalogue.
"""

from contextlib import suppress

from forecache.models.advice.cases import load_cases
from forecache.models.advice.quick_estimate import quick_estimate
from forecache.sim.errors import ForecacheError

from . import job  # noqa: F401

with suppress(ForecacheError):
    for _case, _system in load_cases({"host": "c7g.4xlarge", "engine": "valkey"}):
        quick_estimate(_case.scenario, _system)
