"""`plan`: which machines, how many shards, which engine."""

from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_file_target, to_json
from forecache.sim.errors import InfeasibleError, NotKnownError

from .completers import complete_hosts
from .options import (
    json_option,
    progress_of,
    quiet_option,
    report_option,
    say_written,
    seed_option,
    verb,
)

_SCENARIO = (".yaml", ".yml")
_TABLES = (".csv", ".csv.gz")


@verb(
    "plan",
    example="""forecache plan examples/plan-graviton.yaml
    forecache plan examples/plan-serverless.yaml
    forecache plan examples/plan-versions.yaml
    forecache plan examples/plan-compression.yaml
    forecache plan --from-info examples/info/node-1.txt --host r7g.large --ceiling ceiling.prom
    forecache plan --from-bill examples/bill/export.csv examples/bill/metrics.csv""",
)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--from-info",
    is_flag=True,
    help="Take the demand from the current deployment: each FILE that does not end in .yaml has "
    "the output of INFO ALL, and preferably of CONFIG GET * and others, of one node; or it "
    "describes keys: an RDB file, or the output of --bigkeys or --memkeys.",
)
@click.option(
    "--from-bill",
    is_flag=True,
    help="Take the current deployment and its cost from exports of AWS's cost and usage report, "
    "and the demand from CloudWatch metrics: each FILE that ends in .csv or .csv.gz is either.",
)
@click.option(
    "--cache",
    metavar="NAME",
    help="With --from-bill: the cache to plan, if there are several.",
)
@click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="With --from-info or --from-bill: the instance type of the current nodes, or a host or "
    "its file.",
)
@click.option(
    "--node",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --from-info or --from-bill: YAML with other fields of a node's scenario, such as "
    "irq_cores.",
)
@click.option(
    "--ceiling",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --from-info or --from-bill: also write the capacity limit of the current nodes: "
    "the highest load that meets the objective, as JSON to a file that ends in .json, else in the "
    "text format of Prometheus.",
)
@click.option(
    "--times",
    type=click.FloatRange(0.01, 1000.0),
    metavar="NUMBER",
    help="With --from-info or --from-bill: say whether the current nodes hold this multiple of "
    "today's peak.",
)
@click.option(
    "--no-search",
    is_flag=True,
    help="With --from-info or --from-bill: only read the files and find the capacity limit.",
)
@report_option
@click.option(
    "--full",
    is_flag=True,
    help="Instead of the search, simulate every number of shards and threads of every choice. The "
    "result should be the same plan, minutes later.",
)
@seed_option
@json_option
@quiet_option
def plan(
    files: tuple[Path, ...],
    from_info: bool,
    from_bill: bool,
    cache: str | None,
    host: str | None,
    node: Path | None,
    ceiling: Path | None,
    times: float | None,
    no_search: bool,
    report: Path | None,
    full: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    FILE is a scenario of `kind: plan`: the demand with its growth, the objectives, and the choices.
    Each plan has the monthly cost of its nodes, with traffic between zones separate, headroom now
    and at the horizon, p99 at the peak, the probability that it meets the objectives, the limit
    that growth reaches first, and the remaining capacity when a node or a zone fails. The current
    deployment stays unless it misses the objectives or a plan is 10% cheaper. Then come the
    rejected alternatives with reasons, and cost against headroom. If nothing meets the objectives,
    the answer says why, and the exit code is 3.

    With --from-info the other files describe the current nodes, and the scenario, or its `demand`,
    is optional. The answer then also gives the source of each number, what is unknown, what was not
    used, and, if the host is known, the highest load at which a current node meets the objective.
    What the nodes say of their own CPU time (used_cpu_*, the usec of commandstats) is compared with
    what is predicted of the same load, and corrects the limit. What the files show to be wrong,
    such as swap, endless full syncs or forks that stop the server, comes first.
    With files of keys alone, the scenario gives `demand.operations`.

    If more than a fifth of the execution time of the current nodes belongs to commands that are not
    modelled, there is neither a plan nor a capacity limit: the answer says what to provide, the
    file of an earlier --ceiling is removed, and the exit code is 8.

    With --from-bill they are exports of a bill, and of metrics; with both options, the files that
    end in .csv or .csv.gz are. The answer compares the current bill, by cache and line, with that
    of the first plan, and lists every line of the export that could not be assigned, with its
    amount.
    """
    scenario, infos, bills = _sorted(files, from_info=from_info, from_bill=from_bill)
    if not (from_info or from_bill) and (host or node or ceiling or times or no_search):
        raise click.UsageError(
            "--host, --node, --ceiling, --times and --no-search are for --from-info and "
            "--from-bill."
        )
    if cache is not None and not from_bill:
        raise click.UsageError("--cache is for --from-bill.")
    if no_search and (report is not None or full):
        raise click.UsageError("--report and --full are not for --no-search.")
    if ceiling is not None:
        check_file_target(ceiling, option="--ceiling")
    written = (report, ceiling)
    was_there = ceiling is not None and ceiling.is_file()
    try:
        with progress_of(quiet) as progress:
            result = verbs.plan(
                scenario,
                from_info=infos,
                from_bill=bills,
                cache=cache,
                host=host,
                node=node,
                ceiling=ceiling,
                times=times or 1.0,
                search=not no_search,
                report=report,
                seed=seed,
                full=full,
                progress=progress,
            )
    except InfeasibleError as error:
        _print(error.result, written, as_json=as_json)
        raise
    except NotKnownError as error:
        if ceiling is not None and was_there and not ceiling.exists():
            click.echo(f"removed {ceiling}, which told of an earlier time", err=True)
        _print(error.result, (), as_json=as_json)
        raise
    _print(result, written, as_json=as_json)


def _sorted(
    files: tuple[Path, ...], *, from_info: bool, from_bill: bool
) -> tuple[Path | None, list[Path], list[Path]]:
    """The scenario among the files, those of nodes, and those of a bill and its metrics."""
    if not (from_info or from_bill):
        if len(files) > 1:
            raise click.UsageError(
                f"found {len(files)} files; valid is one scenario, or --from-info or --from-bill "
                "with files of today."
            )
        return files[0], [], []
    scenarios = [file for file in files if file.suffix in _SCENARIO]
    others = [file for file in files if file.suffix not in _SCENARIO]
    bills = [file for file in others if from_bill and (not from_info or _is_table(file))]
    infos = [file for file in others if file not in bills]
    wanted = [(from_info, infos, "nodes"), (from_bill, bills, "a bill")]
    for asked, found, what in wanted:
        if asked and not found:
            raise click.UsageError(
                f"found {len(scenarios)} scenarios and {len(found)} files of {what}; valid are "
                f"files of {what}, whose names do not end in .yaml, and at most one scenario."
            )
    if len(scenarios) > 1:
        raise click.UsageError(f"found {len(scenarios)} scenarios; valid is one at most.")
    return (scenarios[0] if scenarios else None), infos, bills


def _is_table(file: Path) -> bool:
    """Whether a file is one of commas by its name."""
    return file.name.endswith(_TABLES)


def _print(result: Any, written: tuple[Path | None, ...], *, as_json: bool) -> None:
    say_written(*written)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.models.plan.results import PlanAnswer
    from forecache.reports.terminal.plan import print_plan, print_told

    if isinstance(result, PlanAnswer):
        print_plan(result, console())
    else:
        print_told(result, console())
