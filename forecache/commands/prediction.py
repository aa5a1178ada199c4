"""`simulate`, `recommend`, `explain`: what follows from a scenario alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_file_target, to_json
from forecache.sim.errors import IncompleteError, InfeasibleError
from forecache.sim.processes import usable_cores

from .options import json_option, progress_of, quiet_option, scenario_argument, seed_option, verb


@verb(
    "simulate",
    short="Predict throughput, latency and utilisation.",
    example="""forecache simulate examples/quickstart.yaml
    forecache simulate examples/overcommit-policies.yaml --seeds 8""",
)
@scenario_argument
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write an HTML page with plots against time, of a scenario that runs over time.",
)
@seed_option
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Replications with this many seeds from --seed on, of a scenario that runs over time: "
    "facts have 95% intervals, points of a sweep paired differences to the first.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Simulations at a time: processes for a scenario that runs over time, threads for a node. "
    "The result is the same with any number; as many as there are cores when not given.",
)
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder that keeps the result of every run, of a scenario that runs over time: asked "
    "again after a run was killed or interrupted, only what is missing is simulated.",
)
@json_option
@quiet_option
def simulate(
    scenario: Path,
    report: Path | None,
    seed: int,
    seeds: int,
    jobs: int | None,
    resume: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Predict throughput, latency and utilisation of a scenario.

    One result for every point of the sweep: any field of SCENARIO may be `{sweep: [1, 2, 4]}`, and
    with several swept fields every combination is simulated. Nothing is started or measured.

    A SCENARIO whose `kind` is not a node runs over time: it answers with facts, tables and a line
    per quantity, its least, mean and greatest value and a sparkline. Of several points, what
    differs between them comes first.
    """
    if report is not None:
        check_file_target(report, option="--report")
    incomplete: IncompleteError | None = None
    with progress_of(quiet) as progress:
        try:
            result = verbs.simulate(
                scenario,
                report=report,
                seed=seed,
                seeds=seeds,
                jobs=jobs or usable_cores(),
                resume=resume,
                progress=progress,
            )
        except IncompleteError as error:
            result, incomplete = error.result, error
    if incomplete is None or result["points"]:
        _print_simulated(result, report, as_json=as_json)
    if incomplete is not None:
        raise incomplete


def _print_simulated(result: dict[str, Any], report: Path | None, *, as_json: bool) -> None:
    if report is not None:
        click.echo(f"wrote {report}", err=True)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.tables import console

    out = console()
    if "kind" in result:
        from forecache.reports.terminal_series import print_series

        print_series(result, out)
        return
    from forecache.reports.terminal import print_points, print_subtitle

    print_subtitle(result, out)
    print_points(result, out)


@verb(
    "recommend",
    short="Recommend the number of I/O threads.",
    example="forecache recommend examples/quickstart.yaml",
)
@scenario_argument
@seed_option
@json_option
@quiet_option
def recommend(scenario: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Recommend the number of I/O threads for a scenario.

    Gives the setting, the knee, what every other setting would cost and why not to take it, what
    the bottleneck is and what would be next, a configuration fragment, and the benchmark command
    that checks the prediction. When no setting meets the scenario's `slo`, the same is said of the
    one that comes closest, and the exit code is 3; so it is where the host's memory is too small
    for the data.
    """
    try:
        with progress_of(quiet) as progress:
            result = verbs.recommend(scenario, seed=seed, progress=progress)
    except InfeasibleError as error:
        # What was found is printed all the same; the error says that it is no recommendation.
        if error.result is not None:
            _print_recommendation(error.result, as_json=as_json)
        raise
    _print_recommendation(result, as_json=as_json)


def _print_recommendation(result: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.terminal import print_answer
    from forecache.tables import console

    print_answer(result, console())


@verb(
    "explain",
    short="Show where the time of a request goes.",
    example="""forecache explain examples/quickstart.yaml
    forecache explain examples/quickstart.yaml --timeline timeline.json""",
)
@scenario_argument
@click.option(
    "--timeline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write what every thread does in a millisecond, as Chrome trace events: open FILE in "
    "ui.perfetto.dev or chrome://tracing.",
)
@seed_option
@json_option
@quiet_option
def explain(scenario: Path, timeline: Path | None, seed: int, as_json: bool, quiet: bool) -> None:
    """Show where the time of one request goes, stage by stage and thread by thread.

    First the CPU time of its steps, then its latency in the order in which it passes the stations,
    waiting apart from service, what limits, and how much of the network and of the memory's
    bandwidth is used: of a sweep for the recommended setting, or the one that comes closest to an
    `slo` none meets (for the first point where more than io_threads is swept), with a line for
    every other. Then which measurement would narrow the
    recommendation most, and by how much. With --json also every number behind it, with its range
    and origin.
    """
    if timeline is not None:
        check_file_target(timeline, option="--timeline")
    with progress_of(quiet) as progress:
        result = verbs.explain(scenario, timeline=timeline, seed=seed, progress=progress)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.console import print_warnings
    from forecache.reports.shapes import all_warnings
    from forecache.reports.terminal import print_measurements, print_subtitle
    from forecache.tables import console, print_explanation

    out = console()
    print_subtitle(result, out)
    print_explanation(result)
    print_measurements(result, out)
    print_warnings(all_warnings({"points": result["points"]}), out)
