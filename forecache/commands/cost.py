"""`cost`: what a cache costs."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json

from .options import json_option, no_progress_option, scenario_argument, verb


@verb(
    "cost",
    example="forecache cost examples/cost.yaml",
)
@scenario_argument
@json_option
@no_progress_option
def cost(scenario: Path, as_json: bool) -> None:
    """Compute what a cache costs a month, serverless and as nodes, and where both cost the same.

    SCENARIO is of `kind: cost`. Prices come from a dated table with sources; a file of the same
    form can replace it.
    """
    result = verbs.cost(scenario)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.reports.terminal.cost import print_cost

    print_cost(result, console())
