"""`explore`: a local page to play with a scenario."""

from contextlib import suppress
from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json

from .options import json_option, scenario_argument, seed_option, verb


@verb(
    "explore",
    example="forecache explore examples/quickstart.yaml",
)
@scenario_argument
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    metavar="PORT",
    default=0,
    help="Port on loopback; by default any that is free.",
)
@seed_option
@json_option
def explore(scenario: Path, port: int, seed: int, as_json: bool) -> None:
    """Serve a local page with controls for SCENARIO and plots that follow them.

    The page has host, engine, io-threads, clients, pipeline, value size, keys, mix, TLS and offered
    load. Its plots show quick estimates at once, with their error, and then simulations with
    intervals as they finish. A second scenario can be compared with the first, with the paired
    difference. The page's address holds the scenario as YAML.

    SCENARIO is of a node, and sweeps io_threads at most. The server listens on loopback only, at an
    address with a random token, and ends with Ctrl-C. Needs `pip install 'forecache[explore]'`.
    """

    def ready(address: str) -> None:
        click.echo(to_json({"address": address}) if as_json else address)
        if not as_json:
            click.echo("Open this address in a browser; Ctrl-C ends it.", err=True)

    with suppress(KeyboardInterrupt):
        verbs.explore(scenario, port=port, seed=seed, ready=ready)
