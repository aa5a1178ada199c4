"""`plan`: which machines, how many shards, which engine."""

from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_file_target, to_json
from forecache.sim.errors import InfeasibleError

from .options import json_option, progress_of, quiet_option, scenario_argument, seed_option, verb


@verb(
    "plan",
    short="Find the cheapest machines, shards and engine.",
    example="""forecache plan examples/plan-graviton.yaml
    forecache plan examples/plan-serverless.yaml
    forecache plan examples/plan-versions.yaml""",
)
@scenario_argument
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write an HTML page with the plans, and cost against headroom as a figure.",
)
@click.option(
    "--full",
    is_flag=True,
    help="In place of the search simulate every number of shards and threads of everything that "
    "may be chosen. The same plan should come out, minutes later.",
)
@seed_option
@json_option
@quiet_option
def plan(
    scenario: Path, report: Path | None, full: bool, seed: int, as_json: bool, quiet: bool
) -> None:
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    SCENARIO is of `kind: plan`: the demand with its growth, the objectives, and what may be chosen.
    Each plan has its cost a month, headroom now and at the horizon, p99 at the peak, the
    probability that it meets the objectives, which limit growth reaches first, and what is left
    when a node or a zone fails. Then comes why each obvious alternative was turned down, and cost
    against headroom. If nothing meets the objectives, the answer says why, and the exit code is 3.
    """
    if report is not None:
        check_file_target(report, option="--report")
    try:
        with progress_of(quiet) as progress:
            result = verbs.plan(scenario, report=report, seed=seed, full=full, progress=progress)
    except InfeasibleError as error:
        _print(error.result, report, as_json=as_json)
        raise
    _print(result, report, as_json=as_json)


def _print(result: Any, report: Path | None, *, as_json: bool) -> None:
    if report is not None:
        click.echo(f"wrote {report}", err=True)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.terminal.plan import print_plan
    from forecache.tables import console

    print_plan(result, console())
