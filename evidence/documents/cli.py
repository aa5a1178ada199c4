"""Writes docs/cli.md from the commands themselves.

The page is made from names and texts, not from click's layout, so it doesn't change with click.
"""

import inspect
import re

import click

from forecache.cli import (
    EXIT_BAD_INPUT,
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_PIPE_CLOSED,
    EXIT_TERMINATED,
)
from forecache.commands import all_commands, documentation
from forecache.hwprofiles.files import MOST_BYTES, MOST_DEPTH, MOST_VALUES
from forecache.sim.effort import MOST_MEMORY_BYTES, MOST_WORK_S, VARIABLE
from forecache.sim.errors import (
    EngineError,
    IncompleteError,
    InfeasibleError,
    InputError,
    NotKnownError,
    OutsideError,
    UnfitError,
)
from forecache.verbs import VERBS

from ..markdown import table

HEAD = """\
# Command line

Written by `make docs` from the commands; a test compares the two.

Every verb is also a Python function of the same name: `forecache.simulate("scenario.yaml")`.
Results go to standard output or to the files named by `--out`; progress and warnings go to
standard error. Files and bundles are written atomically: complete or not at all.
"""

KEPT = """\
## What is kept on disk

The node, the load of clusters, the load generator and the measurements of `profile` are compiled
when the package is installed. The simulated nodes of clusters are kept in the folder `forecache` in
your cache folder (`XDG_CACHE_HOME`, or `~/.cache`). If that is not writable, they go to
`forecache-UID` in the folder for temporary files (`TMPDIR`), writable by you only. If no folder is
writable, nothing is kept.
"""

COMPLETION = """\
## Shell completion

`forecache completion SHELL` prints a script by which a shell completes verbs, options, hosts,
instances, engines, datasets and files:

| shell | put it into | line |
|---|---|---|
| bash, 4.4 or newer | `~/.bashrc` | `eval "$(forecache completion bash)"` |
| zsh | `~/.zshrc`, after `compinit` | `eval "$(forecache completion zsh)"` |
| fish | `~/.config/fish/config.fish` | `forecache completion fish \\| source` |
"""

LIMITS = f"""\\
## Limits

A text file has at most {MOST_BYTES / 2**20:.0f} MiB. YAML has at most {MOST_DEPTH} levels of
nesting and {MOST_VALUES:,} values, counting repetitions by aliases. Numbers are finite, and
integers are within 2^53 of zero. Running time is estimated first: more than 20 seconds are
announced, and more than {MOST_WORK_S / 60:.0f} minutes of one core, or the seconds in
`{VARIABLE}`, are refused with a suggestion how to reduce them. So are arrays of more than
{MOST_MEMORY_BYTES / 2**30:.0f} GiB.
"""

EXIT_CODES = [
    (0, "done"),
    (EXIT_BUG, "a bug in forecache; `FORECACHE_TRACEBACK=1` shows where"),
    (
        EXIT_BAD_INPUT,
        "bad input: an option, a file or a field of it; the message names it and what is valid",
    ),
    (InfeasibleError.exit_code, "nothing satisfies the request, such as an SLO no setting meets"),
    (
        IncompleteError.exit_code,
        "a worker was killed: the finished part was printed, or is in files, and the message says "
        "what is missing",
    ),
    (
        EngineError.exit_code,
        "an engine did not start, or it or a Dask scheduler did not answer, or stopped answering",
    ),
    (
        OutsideError.exit_code,
        "a measurement is outside the predicted interval, or of something else than was predicted",
    ),
    (
        UnfitError.exit_code,
        "the answer was printed, and a point of it does not meet a requirement: load, objective, "
        "memory, a long pause, CPUs or network; of a recommendation, the recommended setting",
    ),
    (
        NotKnownError.exit_code,
        "too little is known for an answer; the message says what to provide",
    ),
    (EXIT_INTERRUPTED, "interrupted with Ctrl-C; engines were stopped, no file is half-written"),
    (EXIT_PIPE_CLOSED, "the reader of the output closed it, as in `forecache … | head -1`"),
    (EXIT_TERMINATED, "terminated (SIGTERM, SIGHUP); engines were stopped as after Ctrl-C"),
]
assert InputError.exit_code == EXIT_BAD_INPUT


def page() -> str:
    """Return the whole page as Markdown."""
    parts = [HEAD, "## Exit codes\n", *table(["code", "meaning"], EXIT_CODES)]
    parts.append("\nA failed run prints one line on standard error, `forecache: error: …`.\n")
    parts.append(KEPT)
    parts.append(COMPLETION)
    parts.append(LIMITS)
    parts += [_verb(command) for command in all_commands()]
    return "\n".join(parts).rstrip() + "\n"


def _verb(command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    names = [argument.metavar or str(argument.name).upper() for argument in arguments]
    usage = " ".join(["forecache", str(command.name), *names, "[OPTIONS]"])
    lines = [f"## {command.name}\n", _prose(command), f"\n`{usage}`\n"]
    rows = [[f"`{_spelling(option)}`", _meaning(option)] for option in options]
    lines += table(["option", "meaning"], rows)
    verb = VERBS[str(command.name)]
    lines += ["\n```sh", *verb.examples, "```\n"]
    # Types stand at the margin.
    indented = re.findall(r"^    .*$", documentation(verb.function)["Returns"], re.MULTILINE)
    result = " ".join(" ".join(indented).split())
    lines += [f"Result (`--json`, and what the Python function returns): {result}\n"]
    return "\n".join(lines)


def _prose(command: click.Command) -> str:
    """Return the help text with every paragraph on one line."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _spelling(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} {' or '.join(str(choice) for choice in option.type.choices)}"
    return f"{names} {option.metavar or 'N'}"


def _meaning(option: click.Option) -> str:
    text = " ".join((option.help or "").split())
    if option.required:
        return f"{text} Required."
    if option.show_default:
        return f"{text} Default: `{option.default}`."
    return text
