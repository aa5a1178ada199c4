"""`check`: what was measured against what was predicted."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import to_json
from forecache.sim.errors import OutsideError

from .completers import complete_tools
from .options import (
    json_option,
    progress_of,
    quiet_option,
    refuse_unmet,
    scenario_argument,
    seed_option,
    verb,
)

_QUANTITIES = (
    *("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms"),
    "server_cpu_us",
)


@verb(
    "check",
    example="""forecache check examples/check.yaml examples/check/measured.yaml
    forecache check examples/check.yaml --run 127.0.0.1:6379 --write""",
)
@scenario_argument
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--info-before",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The server's INFO right before the measurement (`valkey-cli INFO > FILE`).",
)
@click.option(
    "--info-after",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The same right after it. Both give the CPU time per request, the version and the misses.",
)
@click.option(
    "--run",
    metavar="ADDRESS",
    help="Measure now instead: run the recommended benchmark against HOST:PORT or a Unix socket.",
)
@click.option(
    "--tool",
    metavar="PATH",
    shell_complete=complete_tools,
    help="With --run: the benchmark tool, by default the one that a recommendation names.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5, max=300),
    default=5.0,
    show_default=True,
    metavar="S",
    help="With --run: duration of a repetition. One that hangs is stopped.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
    metavar="N",
    help="With --run: number of repetitions.",
)
@click.option(
    "--write",
    is_flag=True,
    help="With --run: fill the server with the scenario's keys (`key:...`) first, and allow SETs.",
)
@click.option(
    "--at",
    metavar="FIELD=VALUE",
    multiple=True,
    help="Which point of a sweep was measured, as io_threads=4; once for each swept field.",
)
@click.option(
    "--only",
    type=click.Choice(_QUANTITIES),
    metavar="QUANTITY",
    multiple=True,
    help="Compare this quantity only, of throughput_rps, mean_ms, p50_ms, p90_ms, p99_ms, p999_ms "
    "and server_cpu_us; may be repeated.",
)
@seed_option
@json_option
@quiet_option
def check(
    scenario: Path,
    files: tuple[Path, ...],
    info_before: Path | None,
    info_after: Path | None,
    run: str | None,
    tool: str | None,
    seconds: float,
    repetitions: int,
    write: bool,
    at: tuple[str, ...],
    only: tuple[str, ...],
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare the prediction of SCENARIO with what you measured.

    FILE is memtier_benchmark's JSON (--json-out-file), valkey-benchmark's or redis-benchmark's CSV
    (--csv), or YAML or JSON with numbers such as `throughput_rps`, `p50_ms`, `p99_ms` and
    `server_cpu_us`. Several files, or several numbers of one quantity, are repetitions of one
    measurement.

    The answer says for each quantity whether it is inside the interval. If one is not, it lists
    possible causes of the gap: each is simulated, and ranked by the share of the gap that it
    explains. A cause that no measured number supports counts half. Then come the next measurement
    and the prediction, updated with this one.

    The exit code is 6 if a quantity is outside, or another engine or setting was measured than the
    scenario's; else 7 if the predicted point does not meet its requirements; else 0.
    """
    if not run and (tool is not None or write):
        raise click.UsageError("--tool and --write are for --run.")
    fields = dict(_field(text) for text in at)
    with progress_of(quiet) as progress:
        answer = verbs.check(
            scenario,
            files,
            info_before=info_before,
            info_after=info_after,
            run=run,
            tool=tool,
            seconds=seconds,
            repetitions=repetitions,
            write=write,
            at=fields,
            only=only,
            seed=seed,
            progress=progress,
        )
    if as_json:
        click.echo(to_json(answer))
    else:
        from forecache.console import console
        from forecache.reports.terminal.check import print_check

        print_check(answer, console())
    if not answer.holds:
        outside = ", ".join(row.quantity for row in answer.outside)
        others = ", ".join(each.field for each in answer.differs)
        found = " and ".join(
            text
            for text in (
                f"{outside} outside the predicted interval" if outside else "",
                f"another {others} than the scenario’s" if others else "",
            )
            if text
        )
        raise OutsideError(f"{scenario}: found {found}.")
    refuse_unmet(scenario, [each.sentence for each in answer.unmet])


def _field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise click.BadParameter(f"found {text!r}; valid is FIELD=VALUE, as io_threads=4")
    return name, value
