"""`profile` and `catalog`: what is known about hosts and engines."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_file_target, to_json

from .options import json_option, progress_of, quiet_option, verb


@verb("profile", short="Measure this host.", example="forecache profile --out host.yaml")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File for the profile; by default it goes to standard output.",
)
@json_option
@quiet_option
def profile(out: Path | None, as_json: bool, quiet: bool) -> None:
    """Measure this host, in under a minute.

    Measures the latency of every cache level and of memory, parallel misses, bandwidth, transfer
    between cores, system calls, loopback TCP and Unix sockets. Leave the machine idle meanwhile.
    """
    if out is not None:
        check_file_target(out)
    with progress_of(quiet) as progress:
        captured = verbs.profile(progress=progress)
    from forecache.hwprofiles.files import write_text_atomic

    text = captured.to_yaml()
    if out is not None:
        write_text_atomic(out, text)
        click.echo(f"wrote {out}", err=True)
    if as_json:
        click.echo(to_json(captured))
    elif out is None:
        click.echo(text, nl=False)
    else:
        from forecache.tables import print_host

        print_host(captured)


@verb(
    "catalog",
    short="List hosts, instances, engines and datasets, or show one.",
    example="forecache catalog\nforecache catalog c7g.4xlarge",
)
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def catalog(name: str | None, as_json: bool) -> None:
    """List the hosts, instances, engines, load generators and datasets, or show one of them.

    An entry shows every number with its range and origin.
    """
    result = verbs.catalog(name)
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.tables import print_entry, print_listing

    if name is None:
        print_listing(result)
    else:
        print_entry(result)
