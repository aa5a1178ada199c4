"""`simulate`, `recommend`, `explain`: what follows from a scenario alone."""

from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_file_target, check_folder_target, to_json
from forecache.sim.errors import IncompleteError, InfeasibleError
from forecache.sim.processes import usable_cores

from .completers import complete_hosts
from .options import (
    jobs_option,
    json_option,
    progress_of,
    quiet_option,
    refuse_unmet,
    report_option,
    say_written,
    scenario_argument,
    seed_option,
    seeds_option,
    verb,
)


@verb(
    "simulate",
    example="""forecache simulate examples/quickstart.yaml
    forecache simulate examples/overcommit-policies.yaml --seeds 8""",
)
@scenario_argument
@report_option
@seed_option
@seeds_option(
    "run it with this many seeds, beginning with --seed. Facts then have 95% intervals, and points "
    "of a sweep paired differences from the first."
)
@jobs_option("Simulations")
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="For a scenario that runs over time: keep the result of every run in this folder. After "
    "an interruption, the same command simulates only what is missing.",
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

    There is one result for every point of the sweep. Any field of SCENARIO may be
    `{sweep: [1, 2, 4]}`; if several are, every combination is simulated. Nothing is started or
    measured. If any point does not meet its requirements, the exit code is 7.

    A SCENARIO of any `kind` but a node runs over time. Its result has facts, tables, and a line
    for every quantity with minimum, mean, maximum and a sparkline. With several points, the
    differences between them come first.
    """
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
    if incomplete is None or incomplete.result.points:
        _print_simulated(result, report, as_json=as_json)
    if incomplete is not None:
        raise incomplete
    _refuse_unmet(scenario, result)


def _refuse_unmet(scenario: Path, result: Any) -> None:
    """Raise `UnfitError` where something does not hold at a point that is answered.

    Of settings that are only compared with one to run, that one counts.
    """
    from forecache.models.advice.node_answers import Explained, Recommended, Simulated
    from forecache.reports.text.points import chosen_point, unmet_of_chosen, unmet_phrases

    if isinstance(result, Recommended):
        unmet = unmet_of_chosen(result.recommendation, chosen_point(result))
        refuse_unmet(scenario, [each.sentence for each in unmet])
    elif isinstance(result, Explained) and result.shown.recommended:
        refuse_unmet(scenario, unmet_phrases([result.points[result.shown.point]]))
    elif isinstance(result, Simulated | Explained):
        refuse_unmet(scenario, unmet_phrases(result.points))


def _print_simulated(result: Any, report: Path | None, *, as_json: bool) -> None:
    say_written(report)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.models.results.series import RunsOverTime

    out = console()
    if isinstance(result, RunsOverTime):
        from forecache.reports.terminal.series import print_series

        print_series(result, out)
        return
    from forecache.reports.terminal.answers import print_points, print_subtitle

    print_subtitle(result, result.points, out)
    print_points(result.points, out)


@verb(
    "recommend",
    example="""forecache recommend examples/quickstart.yaml
    forecache recommend examples/quickstart.yaml --report answer.html
    forecache recommend examples/recommend-hosts.yaml
    forecache recommend examples/thread-plan.yaml --emit install
    forecache recommend --from-info examples/info/node-1.txt --host r7g.xlarge""",
)
@click.argument(
    "files", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--from-info",
    is_flag=True,
    help="Take the load from the current deployment, at its peak: each SCENARIO is a file with the "
    "output of INFO ALL of one node, or metrics of it, as in `forecache plan`.",
)
@click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="With --from-info: the instance type of the current nodes, or a host or its file.",
)
@click.option(
    "--node",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --from-info: YAML with other fields of a node's scenario, such as slo.",
)
@click.option(
    "--emit",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also write the thread plan into this new folder: configuration, start command, systemd "
    "drop-ins and scripts. Nothing is written where no setting is recommended.",
)
@report_option
@seed_option
@json_option
@quiet_option
def recommend(
    files: tuple[Path, ...],
    from_info: bool,
    host: str | None,
    node: Path | None,
    emit: Path | None,
    report: Path | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Recommend the number of I/O threads for a scenario.

    The answer has the setting, the knee, the regret of every other setting, the bottleneck and the
    next one, a configuration fragment, and a benchmark command that checks the prediction. Its
    thread plan assigns CPUs to threads, interrupts, snapshot children and everything else on the
    host, and gives the gain over leaving threads to the kernel. If no setting meets the
    scenario's `slo`, or the data do not fit into the host's memory, the answer describes the
    setting that comes closest, and the exit code is 3. If the recommended setting does not meet
    another requirement, the exit code is 7.

    Where `host`, `engine` or `engine_version` is a list, `{sweep: [...]}`, the answer is that of
    `forecache plan`: the cheapest of these nodes that meets the `slo`, and the reasons against the
    others.

    With --from-info the setting is that for the current nodes under their peak, with a p99 of at
    most 1 ms unless --node has an `slo`; what they say of their own CPU time corrects the
    prediction.
    """
    if not from_info and (host or node):
        raise click.UsageError("--host and --node are for --from-info.")
    if not from_info and len(files) > 1:
        raise click.UsageError(
            f"found {len(files)} files; valid is one scenario, or --from-info with files of today."
        )
    if from_info and emit is not None:
        raise click.UsageError("--emit is not for --from-info.")
    scenario = None if from_info else files[0]
    if emit is not None:
        check_folder_target(emit, option="--emit", must_be_new=True)
    try:
        with progress_of(quiet) as progress:
            result = verbs.recommend(
                scenario,
                from_info=files if from_info else (),
                host=host,
                node=node,
                emit=emit,
                report=report,
                seed=seed,
                progress=progress,
            )
    except InfeasibleError as error:
        # What was found is printed all the same; the error says that it is no recommendation.
        if error.result is not None:
            say_written(report)
            _print_recommendation(error.result, as_json=as_json)
        raise
    say_written(emit, report)
    _print_recommendation(result, as_json=as_json)
    _refuse_unmet(files[0], result)


def _print_recommendation(result: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.models.advice.node_answers import Recommended

    if isinstance(result, Recommended):
        from forecache.reports.terminal.answers import print_answer

        print_answer(result, console())
    else:
        from forecache.reports.terminal.plan import print_plan

        print_plan(result, console())


@verb(
    "explain",
    example="""forecache explain examples/quickstart.yaml
    forecache explain examples/quickstart.yaml --timeline timeline.json
    forecache explain examples/quickstart.yaml --sensitivity --figure sensitivity.svg""",
)
@scenario_argument
@click.option(
    "--timeline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write what every thread does during one millisecond, as Chrome trace events. Open "
    "FILE in ui.perfetto.dev or chrome://tracing.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also simulate which inputs drive the answer: the share of its variance due to each "
    "uncertain parameter and, separately, to each field you can choose. Takes a minute or two.",
)
@click.option(
    "--figure",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --sensitivity: also write its figure as an SVG file.",
)
@report_option
@seed_option
@json_option
@quiet_option
def explain(
    scenario: Path,
    timeline: Path | None,
    sensitivity: bool,
    figure: Path | None,
    report: Path | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show where the time of one request goes, step by step and thread by thread.

    The answer has the CPU time of each step, the latency by station with waiting and service
    separate, the bottleneck, the utilisation of network and memory bandwidth, and the measurement
    that would narrow the recommendation most, with its effect.

    Of a sweep of io_threads, this describes the recommended setting, or the one that comes closest
    to an `slo` that none meets; of any other sweep, the first point. Every other point gets one
    line. --json adds every parameter behind the answer with its range and source. If the
    recommended setting or, without one, any point does not meet its requirements, the exit code is
    7.

    --sensitivity adds which inputs drive the throughput (p99 under a given rate), and bases the
    next measurement on these simulations. Fields that SCENARIO sweeps are varied over their values,
    others from a quarter to four times their value.
    """
    if timeline is not None:
        check_file_target(timeline, option="--timeline")
    if figure is not None:
        if not sensitivity:
            raise click.UsageError("--figure draws what --sensitivity finds; give both.")
        check_file_target(figure, option="--figure")
    with progress_of(quiet) as progress:
        answer = verbs.explain(
            scenario,
            timeline=timeline,
            sensitivity=sensitivity,
            report=report,
            seed=seed,
            progress=progress,
        )
    say_written(report)
    if figure is not None:
        _draw_sensitivity(answer, figure)
    if as_json:
        click.echo(to_json(answer))
    else:
        _print_explained(answer)
    _refuse_unmet(scenario, answer)


def _print_explained(answer: Any) -> None:
    from forecache.console import console
    from forecache.reports.terminal.answers import print_measurements, print_subtitle
    from forecache.reports.terminal.console import print_warnings
    from forecache.reports.terminal.explained import print_explanation
    from forecache.reports.text.points import point_warnings

    out = console()
    print_subtitle(answer, answer.points, out)
    print_explanation(answer, out)
    if answer.sensitivity is not None:
        from forecache.reports.terminal.explained import print_sensitivity

        print_sensitivity(answer.sensitivity, out)
        if answer.sensitivity.measure_next.quantity != answer.measure_next.quantity:
            print_measurements(answer.sensitivity.measure_next, out)
    print_measurements(answer.measure_next, out)
    print_warnings(point_warnings(answer.points), out)


def _draw_sensitivity(answer: Any, path: Path) -> None:
    from forecache.reports.figures import sensitivity, write_svg

    figure = sensitivity(answer.sensitivity)
    if figure is None:
        click.echo("nothing moves this answer: no figure", err=True)
        return
    write_svg(figure, path)
    click.echo(f"wrote {path}", err=True)
