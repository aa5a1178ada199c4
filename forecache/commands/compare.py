"""`compare`: two scenarios side by side."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json

from .options import (
    json_option,
    progress_of,
    quiet_option,
    refuse_unmet,
    report_option,
    say_written,
    seed_option,
    verb,
)

_FILE = click.Path(path_type=Path)


@verb(
    "compare",
    example="forecache compare examples/compare.yaml examples/compare/after.yaml",
)
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@report_option
@seed_option
@json_option
@quiet_option
def compare(
    before: Path, after: Path, report: Path | None, seed: int, as_json: bool, quiet: bool
) -> None:
    """Predict two scenarios of nodes, and what AFTER gains or loses against BEFORE.

    They may differ in anything: engine, version, host, settings, load. Both are simulated with
    common random numbers, so that shared errors cancel, and each difference has its own 95%
    interval. If that includes zero, or the difference is under 1%, there is no clear difference. A
    scenario that sweeps io_threads stands for the setting that `recommend` chooses. If something
    that was asked for does not hold of one of the two, the exit code is 7.
    """
    with progress_of(quiet) as progress:
        result = verbs.compare(before, after, report=report, seed=seed, progress=progress)
    say_written(report)
    from forecache.reports.text.points import unmet_phrases

    if as_json:
        click.echo(to_json(result))
    else:
        from forecache.console import console
        from forecache.reports.terminal.answers import print_comparison

        print_comparison(result, console())
    sides = ((before, result.first), (after, result.second))
    unmet = {scenario: unmet_phrases([side.point]) for scenario, side in sides}
    refuse_unmet(
        " and ".join(str(scenario) for scenario, phrases in unmet.items() if phrases),
        [phrase for phrases in unmet.values() for phrase in phrases],
    )
