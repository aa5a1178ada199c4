"""`study`: every step from measuring to the report."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_folder_target, to_json

from .options import (
    design_option,
    engine_binary_option,
    json_option,
    progress_of,
    quiet_option,
    scenario_argument,
    seed_option,
    verb,
)


@verb(
    "study",
    example="forecache study examples/quickstart.yaml",
)
@scenario_argument
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("study"),
    show_default=True,
    help="Folder for the report and its inputs; files of an earlier study are replaced.",
)
@engine_binary_option
@design_option
@seed_option
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also simulate which inputs drive each recommendation, as `explain --sensitivity` does: "
    "one to two minutes more for each of the two hosts.",
)
@json_option
@quiet_option
def study(
    scenario: Path,
    out: Path,
    engine: str | None,
    design: str,
    seed: int,
    sensitivity: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Profile this host, observe an engine, calibrate, predict and report.

    Writes one self-contained HTML file with the scaling curve and the recommendation, for this host
    and for the one that SCENARIO names, and keeps the report's inputs beside it. This takes less
    than three minutes; the first line says how long. With other programs running it measures less
    in that time, so leave the machine idle.

    `cores`, `irq_cores` and the load generator's `cores` apply only to the host of SCENARIO.
    """
    check_folder_target(out)
    with progress_of(quiet) as progress:
        result = verbs.study(
            scenario,
            out=out,
            engine=engine,
            design=design,
            seed=seed,
            sensitivity=sensitivity,
            progress=progress,
        )
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import console
    from forecache.reports.terminal.answers import print_study

    print_study(result, console())
    if result.report:
        click.echo(f"wrote {result.report}", err=True)
