"""The commands of the program, and whether a line that a page shows can be typed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from offpath.cli.main import cli


def every(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Each group and command below a group, with the words that name it; not former names."""
    context = click.Context(group)
    for name in group.list_commands(context):  # those of entry points, too
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from every(command, (*path, name))


def parse(words: list[str]) -> None:
    """Parse a command to its last option; raises UsageError for what the program does not know,
    and for former names, which no page shows.
    """
    group: click.Command = cli
    context = click.Context(cli)
    while isinstance(group, click.Group):
        name, command, words = group.resolve_command(context, words)
        assert command is not None
        if command.hidden:
            raise click.UsageError(f"{name} is a former name")
        if isinstance(command, click.Group) and words:
            context, group = click.Context(command, parent=context, info_name=name), command
        else:
            command.make_context(name, words, parent=context).close()
            return
