"""`completion`: the script by which a shell completes verbs, options, hosts, engines and files."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_FORECACHE_COMPLETE"
"""Set by the script whenever the shell asks what could be typed next."""

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete verbs, options, hosts, engines and files.

    SHELL is bash (4.4 or newer), zsh or fish. In zsh the line goes after compinit.

    \b
    bash  eval "$(forecache completion bash)"    in ~/.bashrc
    zsh   eval "$(forecache completion zsh)"     in ~/.zshrc
    fish  forecache completion fish | source     in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "forecache", VARIABLE).source())
