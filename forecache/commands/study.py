"""`study`: the whole job."""

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
    short="The whole job, for this host and the scenario's.",
    example="forecache study examples/quickstart.yaml",
)
@scenario_argument
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("study"),
    show_default=True,
    help="Folder for the report and all it rests on; files of an earlier study are replaced.",
)
@engine_binary_option
@design_option
@seed_option
@json_option
@quiet_option
def study(
    scenario: Path,
    out: Path,
    engine: str | None,
    design: str,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Do the whole job: profile this host, observe an engine, calibrate, predict, report.

    Writes one self-contained HTML file with the scaling curve and the recommendation, for this
    host and for the one SCENARIO names, and keeps everything the report rests on beside it. Takes
    two to four minutes, the first time longest; nothing else should be busy meanwhile. `cores`,
    `irq_cores` and the load generator's `cores` of SCENARIO are about its own host; this one shares
    its cores as without them.
    """
    check_folder_target(out)
    with progress_of(quiet) as progress:
        result = verbs.study(
            scenario, out=out, engine=engine, design=design, seed=seed, progress=progress
        )
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.reports.terminal import print_study
    from forecache.tables import console

    print_study(result, console())
    if "report" in result:
        click.echo(f"wrote {result['report']}", err=True)
