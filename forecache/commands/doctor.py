"""`doctor`: what this machine allows."""

import click

from forecache import verbs
from forecache.output import to_json

from .options import json_option, progress_of, quiet_option, verb


@verb(
    "doctor",
    example="forecache doctor\nforecache doctor --all",
)
@click.option(
    "--all",
    "whole",
    is_flag=True,
    help="Say in full what was found, what each thing helps, and how to get what is missing.",
)
@json_option
@quiet_option
def doctor(whole: bool, as_json: bool, quiet: bool) -> None:
    """List what this machine can measure, what each ability is good for, and how to enable it.

    Looks at Python and the compiled code with its speed, cores, cgroup limits, hypervisor, clock
    and noise, at perf, hardware counters, VTune and valgrind, at engines and benchmark tools on
    PATH and in the folder that ENGINES names, and at extras and the cache folder. It takes some
    seconds. For two of them it loads two cores to measure interference: that shows whether the
    machine is idle now, not how often it is disturbed.

    Each ability has one line, so that all fit a screen; --all adds the details. Nothing is sent or
    installed. The exit code is always 0.
    """
    with progress_of(quiet) as progress:
        result = verbs.doctor(progress=progress)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.reports.terminal.doctor import print_diagnosis

    print_diagnosis(result, console(pipe_columns=80), whole=whole)
