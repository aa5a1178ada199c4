"""The `forecache` command: parses arguments, runs a verb, turns errors into exit codes.

Results go to standard output, messages to standard error. What a user can cause ends in one line
and a defined exit code; anything else is a bug and says so. `FORECACHE_TRACEBACK=1` shows the
traceback of either.
"""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, TextIO

import click

from forecache.sim.errors import ForecacheError

from . import __version__
from .verbs import VERBS

COMPLETION_VARIABLE = "_FORECACHE_COMPLETE"
"""Set by the script of a shell whenever it asks what could be typed next."""

EXIT_BUG = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE
EXIT_TERMINATED = 128 + signal.SIGTERM

ISSUES_HINT = "set FORECACHE_TRACEBACK=1 to see where, and please report it"


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived: unwinds like Ctrl-C, so that engines are stopped on the way."""


class VerbGroup(click.Group):
    """Lists verbs in the order of the work, and makes only the command that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*VERBS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        from .commands import command

        return command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        rows = [(name, verb.short) for name, verb in VERBS.items()]
        rows += [(name, each.get_short_help_str()) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=VerbGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample, from the root of a checkout:\n"
    "  forecache recommend examples/quickstart.yaml",
)
@click.version_option(__version__, prog_name="forecache", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Predict how a Redis or Valkey server performs on given hardware.

    forecache simulates a workload on a host and an engine. It says how many I/O threads to run,
    what the bottleneck is, and how uncertain the answer is. `study` does everything on this
    machine; most other verbs are its steps.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@cli.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete verbs, options, hosts, engines and files.

    SHELL is bash (4.4 or newer), zsh or fish. In zsh the line goes after compinit.

    \b
    bash  eval "$(forecache completion bash)"    in ~/.bashrc
    zsh   eval "$(forecache completion zsh)"     in ~/.zshrc
    fish  forecache completion fish | source     in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(context.find_root().command, {}, "forecache", COMPLETION_VARIABLE).source())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        What follows the program's name; None takes it from `sys.argv`.
    """
    _quiet_warnings()
    _unwind_when_terminated()
    code = _exit_code(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        _report(f"error: standard output: {error.strerror or error}")
        return code or EXIT_BAD_INPUT
    return code


def _exit_code(arguments: Sequence[str] | None) -> int:
    """Run the verb; what it raises becomes a message and a code."""
    try:
        return _run(arguments)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, click.Abort):
        _report("interrupted")
        return EXIT_INTERRUPTED
    except Terminated:
        _report("terminated")
        return EXIT_TERMINATED
    except click.ClickException as error:
        _traceback_if_wanted()
        _report(f"error: {_usage_message(error)}")
        return EXIT_BAD_INPUT
    except ForecacheError as error:
        _traceback_if_wanted()
        _report(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        _traceback_if_wanted()
        where = f"{error.filename}: " if error.filename else ""
        _report(f"error: {where}{error.strerror or error}")
        return EXIT_BAD_INPUT
    except Exception as error:
        if not _traceback_if_wanted():
            _report(
                f"error: this is a bug in forecache {__version__}"
                f" ({type(error).__name__}: {error}); {ISSUES_HINT}"
            )
        return EXIT_BUG


def _pipe_closed() -> int:
    """The code for a reader of our output that has gone (`forecache … | head`)."""
    # Python would complain once more when it flushes at exit, so standard output is pointed
    # somewhere that takes it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_PIPE_CLOSED


def _run(arguments: Sequence[str] | None) -> int:
    """Parse and invoke without click's own handling of Ctrl-C and closed pipes."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETION_VARIABLE in os.environ:
        # A shell asks what could be typed next; click answers and leaves.
        cli.main(given, prog_name="forecache")
    with cli.make_context("forecache", given) as context:
        cli.invoke(context)
    return 0


def _usage_message(error: click.ClickException) -> str:
    """Return click's complaint as one sentence that says where to look."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}; see `{error.ctx.command_path} --help`"
    return message


def _report(message: str) -> None:
    """Print one line on standard error; a closed standard error is not worth another error."""
    line = " ".join(message.split())
    try:
        # On a terminal the line of the current step may still stand there.
        start = "\r\x1b[2K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}forecache: {line}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _traceback_if_wanted() -> bool:
    if os.environ.get("FORECACHE_TRACEBACK", "") in ("", "0"):
        return False
    traceback.print_exc()
    return True


def _unwind_when_terminated() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        # What the caller chose to ignore (nohup, say) stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise Terminated


def _quiet_warnings() -> None:
    """Show warnings as one line each; those about other packages' future are not the user's."""
    if sys.warnoptions:
        return
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", category)
    warnings.showwarning = _show_warning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    _report(f"warning: {message}")
