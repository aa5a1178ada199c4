"""`observe`, `calibrate`, `validate`: a real engine, its profile, and how well that predicts."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_file_target, check_folder_target, to_json

from .completers import complete_datasets, complete_hosts
from .options import (
    design_option,
    engine_binary_option,
    engine_profile_option,
    host_option,
    json_option,
    progress_of,
    quiet_option,
    verb,
)


@verb(
    "observe",
    example="forecache profile --out host.yaml\nforecache observe --host host.yaml --out bundle",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the bundle; it appears once it is complete. Required without --print-recipe.",
)
@engine_binary_option
@design_option
@click.option(
    "--budget",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Time for the points of --design auto, 60 by default.",
)
@click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="Profile of this host, from `forecache profile`. The bundle keeps it for calibrate; "
    "--design auto needs it.",
)
@click.option(
    "--tool",
    type=click.Choice(["forecache", "valkey-benchmark", "redis-benchmark", "memtier_benchmark"]),
    metavar="TOOL",
    default="forecache",
    show_default=True,
    help="Load generator: forecache (built in), or valkey-benchmark, redis-benchmark or "
    "memtier_benchmark, which must be on PATH.",
)
@click.option(
    "--profiler",
    type=click.Choice(["none", "auto", "clock", "callgrind", "perf", "vtune"]),
    metavar="PROFILER",
    default="none",
    show_default=True,
    help="Also profile the engine: CPU time, instructions or hardware counters by stage of a "
    "request. none, clock, callgrind, perf, vtune, or auto for the most detailed that works here.",
)
@click.option(
    "--caches",
    metavar="HOST[:L3]",
    help="Host whose caches callgrind simulates, by default --host: the first and second level, "
    "or with :L3 the first and third.",
)
@click.option(
    "--commands",
    is_flag=True,
    help="Also count the instructions of every command, in valgrind, which takes about ten "
    "minutes: for a fork or a build whose commands differ from those of the release.",
)
@click.option(
    "--print-recipe",
    is_flag=True,
    help="Instead, print a shell script that observes an engine where forecache can't be "
    "installed. `forecache calibrate` reads the folder that it writes.",
)
@json_option
@quiet_option
def observe(
    out: Path | None,
    engine: str | None,
    design: str,
    budget: float | None,
    host: str | None,
    tool: str,
    profiler: str,
    caches: str | None,
    commands: bool,
    print_recipe: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start a real engine, drive it, and write an observation bundle.

    The engine listens on the loopback interface and a Unix socket only. It is stopped at the end,
    and after Ctrl-C. Leave the machine idle meanwhile.
    """
    if budget is not None and design != "auto":
        raise click.UsageError("--budget is for --design auto.")
    if print_recipe and commands:
        raise click.UsageError(
            "--commands needs forecache beside the engine, without --print-recipe."
        )
    if print_recipe:
        click.echo(verbs.recipe(engine=engine, design=design, host=host, tool=tool), nl=False)
        return
    if out is None:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    check_folder_target(out, must_be_new=True)
    with progress_of(quiet) as progress:
        bundle = verbs.observe(
            out,
            engine=engine,
            design=design,
            budget_s=60.0 if budget is None else budget,
            host=host,
            tool=tool,
            profiler=profiler,
            caches=caches,
            commands=commands,
            progress=progress,
        )
    click.echo(f"wrote {out}", err=True)
    from forecache.calibration.bundle.bundle import bundle_summary
    from forecache.console import console
    from forecache.reports.terminal.measured import print_bundle

    if as_json:
        click.echo(to_json(bundle_summary(bundle)))
    else:
        print_bundle(bundle, console())


@verb(
    "calibrate",
    example="forecache profile --out host.yaml\n"
    "forecache observe --host host.yaml --out observed\n"
    "forecache calibrate observed --out engine.yaml",
)
@click.argument("bundle", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="File for the engine profile; use its path as `engine:` of a scenario.",
)
@click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="Profile of the observed host, if the bundle has none.",
)
@json_option
@quiet_option
def calibrate(bundle: Path, out: Path, host: str | None, as_json: bool, quiet: bool) -> None:
    """Fit an engine's work to an observation bundle and report how well it fits.

    DIR is a folder written by `forecache observe`. Held-out points are predicted and reported
    apart from the fitted ones.
    """
    check_file_target(out)
    with progress_of(quiet) as progress:
        engine_profile, report = verbs.calibrate(bundle, host=host, progress=progress)
    from forecache.hwprofiles.files import dump_yaml, write_text_atomic

    write_text_atomic(out, dump_yaml(engine_profile.model_dump(mode="json", exclude_defaults=True)))
    click.echo(f"wrote {out}", err=True)
    if as_json:
        click.echo(to_json(report))
        return
    from forecache.console import console
    from forecache.reports.terminal.accuracy import print_calibration

    print_calibration(report, console())


@verb(
    "validate",
    example="forecache validate valkey-8.1.1-c8g-unix-p1",
)
@click.argument("dataset", metavar="DATASET", shell_complete=complete_datasets)
@host_option
@engine_profile_option
@json_option
@quiet_option
def validate(
    dataset: str, host: str | None, engine: str | None, as_json: bool, quiet: bool
) -> None:
    """Predict every point of a dataset of measurements and report the errors.

    DATASET is a file or the name of a shipped dataset of loads on a node; `forecache catalog` lists
    them.

    Only points with `role: calibration` are fitted, by a few factors on speed and work. All points
    are predicted; the summary of errors is over the others.
    """
    with progress_of(quiet) as progress:
        result = verbs.validate(dataset, host=host, engine=engine, progress=progress)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.reports.terminal.accuracy import print_validation

    print_validation(result, console())
