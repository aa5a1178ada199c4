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
    required=True,
    help="Folder for the bundle; it appears only when it is whole.",
)
@engine_binary_option
@design_option
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
@json_option
@quiet_option
def observe(
    out: Path,
    engine: str | None,
    design: str,
    host: str | None,
    tool: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start a real engine, drive it, and write an observation bundle.

    The engine listens on the loopback interface and a Unix socket only, and is stopped in the end,
    also after Ctrl-C. Nothing else should be busy meanwhile.
    """
    check_folder_target(out, must_be_new=True)
    with progress_of(quiet) as progress:
        bundle = verbs.observe(
            out, engine=engine, design=design, host=host, tool=tool, progress=progress
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
    example="forecache validate data/published/valkey-8.1.1-c8g-unix-p1.yaml",
)
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@host_option
@engine_profile_option
@json_option
@quiet_option
def validate(
    dataset: Path, host: str | None, engine: str | None, as_json: bool, quiet: bool
) -> None:
    """Predict every point of a dataset of measurements, and say how far off.

    Only points with `role: calibration` are fitted, by a few factors on speed and work; all are
    predicted, and errors are summed up over the others.
    """
    with progress_of(quiet) as progress:
        result = verbs.validate(dataset, host=host, engine=engine, progress=progress)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.terminal import print_validation
    from forecache.tables import console

    print_validation(result, console())
