"""Former names of commands: hidden from help, they work for one release and say so on stderr."""

from __future__ import annotations

import copy
from typing import Any

import click

from offpath.cli.output import note


def former(group: click.Group, name: str, command: click.Command, *, advice: str) -> None:
    """Keep a command under its former name, too; ``advice`` is what to type instead."""
    alias = copy.copy(command)
    alias.name, alias.hidden = name, True

    def run(**given: Any) -> Any:  # noqa: ANN401 - whatever click passes
        note(f"warning: `offpath {group.name} {name}` goes with the next release: use `{advice}`")
        return None if command.callback is None else command.callback(**given)

    alias.callback = run
    group.add_command(alias)
