"""`observe`, `calibrate`, `validate`: a real engine, its profile, and how well that predicts."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_file_target, check_folder_target, to_json

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
    short="Drive a real engine, record what it does.",
    example="forecache profile --out host.yaml\nforecache observe --host host.yaml --out bundle",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the bundle; it appears only when it is whole. Required, but with "
    "--print-recipe.",
)
@engine_binary_option
@design_option
@click.option(
    "--budget",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Time for the points of --design auto, which needs --host; 60 when not given.",
)
@click.option(
    "--host",
    metavar="HOST",
    help="Profile of this host, from `forecache profile`; stored in the bundle, where calibrate "
    "looks for it.",
)
@click.option(
    "--tool",
    type=click.Choice(["forecache", "valkey-benchmark", "redis-benchmark", "memtier_benchmark"]),
    default="forecache",
    show_default=True,
    help="What drives the engine; a benchmark tool must be on PATH.",
)
@click.option(
    "--profiler",
    type=click.Choice(["none", "auto", "clock", "callgrind", "perf", "vtune"]),
    default="none",
    show_default=True,
    help="Looks inside the engine as well: shares of CPU time, instructions or hardware counters "
    "by stage of a request. `auto` takes the deepest that works here.",
)
@click.option(
    "--caches",
    metavar="HOST[:L3]",
    help="Host whose first and second level of caches `callgrind` simulates; with `:L3`, first and "
    "third. Without it, those of --host.",
)
@click.option(
    "--print-recipe",
    is_flag=True,
    help="Print a shell script that observes an engine where forecache can't be installed; "
    "`forecache calibrate` reads the folder it writes.",
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
    print_recipe: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start a real engine, drive it, and write an observation bundle.

    The engine listens on the loopback interface and a Unix socket only, and is stopped in the end,
    also after Ctrl-C. Nothing else should be busy meanwhile.
    """
    if budget is not None and design != "auto":
        raise click.UsageError("--budget is for --design auto.")
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
            progress=progress,
        )
    click.echo(f"wrote {out}", err=True)
    from forecache.tables import bundle_summary, print_bundle

    if as_json:
        click.echo(to_json(bundle_summary(bundle)))
    else:
        print_bundle(bundle)


@verb(
    "calibrate",
    short="Fit an engine profile to what was observed.",
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
    help="File to write the engine profile to; a scenario's `engine:` takes its path.",
)
@click.option(
    "--host",
    metavar="HOST",
    help="Profile of the host the bundle was observed on, if the bundle holds none.",
)
@json_option
@quiet_option
def calibrate(bundle: Path, out: Path, host: str | None, as_json: bool, quiet: bool) -> None:
    """Fit an engine's work to an observation bundle, and say how well it fits.

    Points held out of the fit are predicted and reported apart from the fitted ones.
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
    from forecache.reports.terminal import print_calibration
    from forecache.tables import console

    print_calibration(report, console())


@verb(
    "validate",
    short="Predict a dataset of measurements and compare.",
    example="forecache validate valkey-8.1.1-c8g-unix-p1",
)
@click.argument("dataset", metavar="DATASET")
@host_option
@engine_profile_option
@json_option
@quiet_option
def validate(
    dataset: str, host: str | None, engine: str | None, as_json: bool, quiet: bool
) -> None:
    """Predict every point of a dataset of measurements, and say how far off.

    DATASET is a file, or the name of a dataset that comes along: `forecache catalog` lists them.
    `articles` are the claims of the articles the project began with, as they were judged with this
    release (`seeds` is the same): a table instead of points.

    Only points with `role: calibration` are fitted, by a few factors on speed and work; all are
    predicted, and errors are summed up over the others.
    """
    with progress_of(quiet) as progress:
        result = verbs.validate(dataset, host=host, engine=engine, progress=progress)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.tables import console

    if result.get("kind") == "articles":
        from forecache.reports.terminal_articles import print_articles

        print_articles(result, console())
        return
    from forecache.reports.terminal import print_validation

    print_validation(result, console())
