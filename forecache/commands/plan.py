"""`plan`: which machines, how many shards, which engine."""

from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_file_target, to_json
from forecache.sim.errors import InfeasibleError

from .options import json_option, progress_of, quiet_option, seed_option, verb

_SCENARIO = (".yaml", ".yml")


@verb(
    "plan",
    short="Find the cheapest machines, shards and engine.",
    example="""forecache plan examples/plan-graviton.yaml
    forecache plan examples/plan-serverless.yaml
    forecache plan examples/plan-versions.yaml
    forecache plan --from-info examples/info/node-1.txt --host r7g.large --ceiling ceiling.prom""",
)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--from-info",
    is_flag=True,
    help="Take the demand from what today's nodes say of themselves: each FILE that does not end "
    "in .yaml has the text of INFO ALL, and best of CONFIG GET * and others, of one node.",
)
@click.option(
    "--host",
    metavar="HOST",
    help="With --from-info: the instance that today's nodes run on, or a host or its file.",
)
@click.option(
    "--node",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --from-info: YAML with other fields of a node's scenario, such as irq_cores.",
)
@click.option(
    "--ceiling",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --from-info: also write the highest load of today's nodes that meets the objective, "
    "as JSON to a file that ends in .json, else in the text format of Prometheus.",
)
@click.option(
    "--no-search",
    is_flag=True,
    help="With --from-info: only read the demand and look for the ceiling.",
)
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
    files: tuple[Path, ...],
    from_info: bool,
    host: str | None,
    node: Path | None,
    ceiling: Path | None,
    no_search: bool,
    report: Path | None,
    full: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    FILE is a scenario of `kind: plan`: the demand with its growth, the objectives, and what may be
    chosen. Each plan has its cost a month, headroom now and at the horizon, p99 at the peak, the
    probability that it meets the objectives, which limit growth reaches first, and what is left
    when a node or a zone fails. Then comes why each obvious alternative was turned down, and cost
    against headroom. If nothing meets the objectives, the answer says why, and the exit code is 3.

    With --from-info the other files are of today's nodes, and the scenario may leave out `demand`
    or be left out. Then the answer also says how each number is known, what could not be known,
    and, where the host is, the highest load with which a node of today meets the objective.
    """
    scenario, infos = _sorted(files, from_info=from_info)
    if not from_info and (host or node or ceiling or no_search):
        raise click.UsageError("--host, --node, --ceiling and --no-search are for --from-info.")
    if no_search and (report is not None or full):
        raise click.UsageError("--report and --full are not for --no-search.")
    for path, option in ((report, "--report"), (ceiling, "--ceiling")):
        if path is not None:
            check_file_target(path, option=option)
    written = [path for path in (report, ceiling) if path is not None]
    try:
        with progress_of(quiet) as progress:
            result = verbs.plan(
                scenario,
                from_info=infos,
                host=host,
                node=node,
                ceiling=ceiling,
                search=not no_search,
                report=report,
                seed=seed,
                full=full,
                progress=progress,
            )
    except InfeasibleError as error:
        _print(error.result, written, as_json=as_json)
        raise
    _print(result, written, as_json=as_json)


def _sorted(files: tuple[Path, ...], *, from_info: bool) -> tuple[Path | None, list[Path]]:
    """The scenario among the files, and those of nodes."""
    if not from_info:
        if len(files) > 1:
            raise click.UsageError(
                f"found {len(files)} files; valid is one scenario, or --from-info with files of "
                "nodes."
            )
        return files[0], []
    scenarios = [file for file in files if file.suffix in _SCENARIO]
    infos = [file for file in files if file.suffix not in _SCENARIO]
    if len(scenarios) > 1 or not infos:
        raise click.UsageError(
            f"found {len(scenarios)} scenarios and {len(infos)} files of nodes; valid with "
            "--from-info are files of nodes, whose names do not end in .yaml, and at most one "
            "scenario."
        )
    return (scenarios[0] if scenarios else None), infos


def _print(result: Any, written: list[Path], *, as_json: bool) -> None:
    for path in written:
        click.echo(f"wrote {path}", err=True)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.models.plan.results import PlanAnswer
    from forecache.reports.terminal.plan import print_plan, print_today
    from forecache.tables import console

    if isinstance(result, PlanAnswer):
        print_plan(result, console())
    else:
        print_today(result.from_info, result.ceiling, console())
