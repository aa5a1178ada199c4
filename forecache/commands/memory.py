"""`memory`: the memory footprint of data, and how much of it fits."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json

from .options import json_option, scenario_argument, verb


@verb(
    "memory",
    short="Give the memory footprint of the data, and how many keys fit.",
    example="""forecache memory examples/memory.yaml
    forecache memory examples/quickstart.yaml""",
)
@scenario_argument
@json_option
def memory(scenario: Path, as_json: bool) -> None:
    """Give the memory footprint of a scenario's data, and how many keys fit.

    Used memory as the engine counts it, block by block in its allocator's size classes: each
    population of keys by part, tables while they move, what the server holds beside data; resident
    memory, also while a child writes a snapshot; and, where `maxmemory_bytes`, `memory_bytes` or a
    host limits it, the most keys of the same mixture that fit. SCENARIO is one of `kind: memory`,
    or one of a node, whose keys and values are taken. Nothing is started or measured.
    """
    result = verbs.memory(scenario)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.terminal_memory import print_memory
    from forecache.tables import console

    print_memory(result, console())
