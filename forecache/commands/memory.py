"""`memory`: the memory footprint of data, and how much of it fits."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json

from .options import json_option, no_progress_option, refuse_unmet, scenario_argument, verb


@verb(
    "memory",
    example="""forecache memory examples/memory.yaml
    forecache memory examples/quickstart.yaml""",
)
@scenario_argument
@json_option
@no_progress_option
def memory(scenario: Path, as_json: bool) -> None:
    """Compute the memory footprint of a scenario's data, and how many keys fit.

    Used memory is what the engine reports, added up block by block in its allocator's size classes:
    each population of keys by part, hash tables while they are resized, and the server's own
    memory. Resident memory is also given while a child writes a snapshot. If `maxmemory_bytes`,
    `memory_bytes` or a host sets a limit, the answer has the largest number of keys of the same
    mixture that fits.

    SCENARIO is of `kind: memory`, or a node's, whose keys and values are used. Nothing is started
    or measured. If the data do not fit, the exit code is 7.
    """
    result = verbs.memory(scenario)
    if as_json:
        click.echo(to_json(result))
    else:
        from forecache.console import console
        from forecache.reports.terminal.memory import print_memory

        print_memory(result, console())
    rooms = [point.room for point in result.points if point.room is not None]
    shortfalls = [room.shortfall for room in rooms if room.shortfall is not None]
    refuse_unmet(scenario, list(dict.fromkeys(shortfalls)))
