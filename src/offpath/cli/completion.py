"""``offpath completion``: what makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "fish", "zsh")
_VARIABLE = "_OFFPATH_COMPLETE"
"""The variable by which click tells a call of the shell from one of a person."""


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    r"""Print what makes a shell complete commands and options.

    \b
    offpath completion bash >> ~/.bashrc
    offpath completion zsh >> ~/.zshrc
    offpath completion fish > ~/.config/fish/completions/offpath.fish
    """
    from offpath.cli.main import cli  # which loads this module

    made = get_completion_class(shell)
    if made is None:  # a shell that another click does not know
        raise click.UsageError(f"click {click.__version__} completes no {shell}")
    click.echo(made(cli, {}, "offpath", _VARIABLE).source())
