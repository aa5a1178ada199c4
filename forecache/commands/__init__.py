"""The verbs of the command line, in the order of the work."""

import click

from .check import check
from .compare import compare
from .cost import cost
from .doctor import doctor
from .engine import calibrate, observe, validate
from .explore import explore
from .machine import catalog, profile
from .memory import memory
from .plan import plan
from .prediction import explain, recommend, simulate
from .report import report
from .study import study
from .sweep import sweep

COMMANDS: list[click.Command] = [
    study,
    report,
    profile,
    observe,
    calibrate,
    validate,
    simulate,
    sweep,
    recommend,
    explain,
    compare,
    explore,
    check,
    memory,
    cost,
    plan,
    catalog,
    doctor,
]
