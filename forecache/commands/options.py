"""What several verbs share: options, the example in the help, progress and printing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from forecache.progress import Progress, silent
from forecache.sim.errors import UnfitError
from forecache.verbs import DEFAULT_SEED

from . import VERBS
from .completers import complete_engines, complete_hosts, complete_servers

Function = TypeVar("Function", bound=Callable[..., Any])

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the whole result as JSON."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress messages.")
no_progress_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    help="Accepted as by other commands; this one has no progress messages.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=DEFAULT_SEED,
    show_default=True,
    metavar="N",
    help="Seed of all random streams; the same seed gives the same result.",
)


def seeds_option(use: str) -> Callable[[Function], Function]:
    """Replications of what runs over time; `use` is their help text."""
    return click.option(
        "--seeds",
        type=click.IntRange(min=1),
        metavar="N",
        default=1,
        show_default=True,
        help=f"For a scenario that runs over time: {use}",
    )


def jobs_option(what: str) -> Callable[[Function], Function]:
    """How many processes run at a time; `what` is what each of them works on."""
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"{what} at a time, each in its own process; by default one per core. The answers do "
        "not depend on it.",
    )


report_option = click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write the answer, its scenario and how to repeat it: an HTML page if FILE ends in "
    ".html, a PDF if it ends in .pdf.",
)
host_option = click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="Name or path of a host profile; `forecache catalog` lists names.",
)
engine_profile_option = click.option(
    "--engine",
    metavar="ENGINE",
    shell_complete=complete_engines,
    help="Name or path of an engine profile; `forecache catalog` lists names.",
)
engine_binary_option = click.option(
    "--engine",
    metavar="PATH",
    shell_complete=complete_servers,
    help="The valkey-server, redis-server or memcached to start, by default the embedded Valkey.",
)
design_option = click.option(
    "--design",
    type=click.Choice(["quick", "full", "threads", "auto"]),
    default="quick",
    show_default=True,
    help="Points to observe: quick takes a minute, full nine, threads (for I/O threads) two; auto "
    "chooses the most informative ones for this engine on this host in a minute.",
)
scenario_argument = click.argument("scenario", metavar="SCENARIO", type=click.Path(path_type=Path))


def verb(name: str, *, example: str) -> Callable[[Function], click.Command]:
    """Make a command whose help ends with an example that can be pasted.

    Parameters
    ----------
    name
        The verb, one of `VERBS`.
    example
        One command a line, as typed at the root of a checkout.
    """
    lines = "".join(f"  {line.strip()}\n" for line in example.strip().splitlines())
    epilog = f"\b\nExample, from the root of a checkout:\n{lines}".rstrip()

    def decorate(function: Function) -> click.Command:
        return click.command(name=name, short_help=VERBS[name].short, epilog=epilog)(function)

    return decorate


def examples(command: click.Command) -> list[str]:
    """Return the example lines of a command's help, each as it would be pasted."""
    text = command.epilog or ""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("forecache ")]


def say_written(*paths: Path | None) -> None:
    """Say on standard error which files were written."""
    for path in paths:
        if path is not None:
            click.echo(f"wrote {path}", err=True)


@contextmanager
def progress_of(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error for as long as the block runs, unless `quiet`."""
    if quiet:
        yield silent
        return
    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()


_MOST_TOLD = 2
"""Unmet requirements named in one message; the answer itself has all."""


def refuse_unmet(scenario: object, phrases: Sequence[str]) -> None:
    """End with exit code 7 if a requirement is not met.

    Raises
    ------
    UnfitError
        There are phrases.
    """
    if not phrases:
        return
    more = len(phrases) - _MOST_TOLD
    told = [*phrases[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])]
    raise UnfitError(f"{scenario}: not met: {'; '.join(told)}.")
