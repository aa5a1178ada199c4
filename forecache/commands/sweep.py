"""`sweep`: any number of points, with answers in files."""

from pathlib import Path
from typing import Any

import click

from forecache import verbs
from forecache.output import check_folder_target, to_json

from .options import (
    jobs_option,
    json_option,
    progress_of,
    quiet_option,
    refuse_unmet,
    scenario_argument,
    seed_option,
    seeds_option,
    verb,
)


@verb(
    "sweep",
    example="""forecache sweep examples/sweep.yaml --out swept
    forecache sweep examples/sweep.yaml --out swept-nominal --nominal""",
)
@scenario_argument
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for the files, part-00000.parquet and so on. If it holds part of the same sweep, "
    "the rest is added.",
)
@click.option(
    "--nominal",
    is_flag=True,
    help="Of a node: simulate each point once, with nominal parameters. It is much faster, and the "
    "answers have no intervals.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Points of a file. An interruption costs the work of one batch at most. By default 200 of "
    "a node, 1,000 with --nominal, 5,000 of memory and cost, 20 plans, 50 runs over time.",
)
@seed_option
@seeds_option("replications of every point. Facts then have 95% intervals.")
@jobs_option("Points")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the workers of this Dask scheduler, as tcp://10.0.0.1:8786, in place of this "
    "machine's cores. They need the same version of forecache, and the files that SCENARIO names "
    "at the same paths.",
)
@json_option
@quiet_option
def sweep(
    scenario: Path,
    out: Path,
    nominal: bool,
    batch: int | None,
    seed: int,
    seeds: int,
    jobs: int | None,
    scheduler: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer every point of a sweep and write the answers to Parquet files.

    SCENARIO is of any kind: a node is answered as by `simulate`, `kind: memory`, `cost` and `plan`
    as by the commands of these names, other kinds by their facts. Memory does not grow with the
    number of points, of which there may be ten million. Each point has a row with its number, the
    swept fields and the answer, with units in the column names; a scenario that runs over time has
    a row for each fact.

    If a point of a node does not meet its requirements, the exit code is 7; the columns `verdict`
    and `unmet` say where and why.

    If it is interrupted or killed, the same command resumes and ends with the same files. A folder
    of another scenario, seed or version of forecache is refused.
    """
    if scheduler is not None and jobs is not None:
        raise click.UsageError("--jobs is for this machine's cores, not for --scheduler.")
    check_folder_target(out)
    with progress_of(quiet) as progress:
        result = verbs.sweep(
            scenario,
            out,
            nominal=nominal,
            batch=batch,
            seed=seed,
            seeds=seeds,
            jobs=jobs,
            scheduler=scheduler,
            progress=progress,
        )
    if as_json:
        click.echo(to_json(result))
    else:
        _print_swept(result, out)
    if result.unmet:
        count = f"{result.unmet:,} of {result.points:,} points (columns verdict and unmet)"
        refuse_unmet(scenario, [count])


def _print_swept(result: Any, out: Path) -> None:
    from forecache.sim.effort import duration_words

    files = f"{result.files:,} file{'s' if result.files != 1 else ''}"
    click.echo(f"{out}: {result.points:,} points in {files}, {len(result.columns)} columns")
    if result.answered:
        rate = result.answered / max(result.seconds, 1e-9)
        took = duration_words(result.seconds)
        click.echo(f"answered {result.answered:,} in {took}, {rate:,.3g} a second")
