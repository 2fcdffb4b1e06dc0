"""The program: the group of all commands, each loaded when it is asked for.

A help text, a completion and a wrong option load click and nothing else of weight.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GIVEN = "offpath.given"
"""The key of the arguments of the program in ``click.Context.meta``."""
INTERRUPTED = 130
"""The exit code that shells have for a program that Ctrl-C ended."""

# The name of a group alone asks what there is; click before 8.2 answers that itself.
_ASKED: tuple[type[click.ClickException], ...] = tuple(
    kind for kind in (getattr(click.exceptions, "NoArgsIsHelpError", None),) if kind
)


@cache
def registered() -> dict[str, EntryPoint]:
    """The commands that installed packages register, by name: those of the economy are so."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group="offpath.commands")}


class LateCommand(NamedTuple):
    """A command whose module is loaded when it is asked for."""

    place: str
    """The module of this package, and the command's name in it."""
    summary: str
    """Its line in the help text."""

    def load(self) -> click.Command:
        """Import the command."""
        module, _, name = self.place.partition(":")
        command: click.Command = getattr(import_module(f"offpath.cli.{module}"), name)
        return command


class Program(click.Group):
    """A group that ends every error of its commands with one clear line and an exit code.

    Errors are JSON where JSON was asked for, and harmless to a terminal.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "offpath",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> Any:  # noqa: ANN401 - click's own
        """Run and exit; see :meth:`click.Command.main`."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except _ASKED as asked:
            click.echo(asked.format_message())  # a help page repeats nothing that was given
            code = 0
        except click.ClickException as error:
            from offpath.cli.errors import refuse

            refuse(error, as_json="--json" in given)
            code = error.exit_code
        except click.Abort:
            click.echo("not confirmed: nothing was changed", err=True)
            code = 1
        sys.exit(code or 0)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """A context that knows what was given: a worker starts its processes by it."""
        given = tuple(args)  # click takes from the list as it reads
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[GIVEN] = given
        return context

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **settings)
        self.later: dict[str, LateCommand] = {}
        self.summaries: dict[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of the core, and those that installed packages register."""
        return sorted({*super().list_commands(ctx), *self.later, *registered()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; a registered one is loaded when it is asked for."""
        found = super().get_command(ctx, cmd_name)
        entry = self.later.get(cmd_name) or registered().get(cmd_name)
        if found is None and entry is not None:
            command: click.Command = entry.load()
            self.add_command(command, cmd_name)
            return command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begin with; click knows only those that were loaded."""
        name = args[0]
        if self.get_command(ctx, name) or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(name, self.list_commands(ctx), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their summaries: a help text loads no command that has one."""
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summary(ctx, name, room)) for name in names])

    def _summary(self, ctx: click.Context, name: str, room: int) -> str:
        known = self.later[name].summary if name in self.later else self.summaries.get(name)
        if known is not None:
            return known
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(room)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command, and give its exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return INTERRUPTED
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's to tell; who reads no more (`| head`) needs no message
        except Exception as error:  # noqa: BLE001 - a person gets a line, --debug the traceback
            from offpath.cli.errors import explain

            return explain(error, debug=bool(ctx.params.get("debug")))
