"""The program: the group of all commands, and how errors end them."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from offpath.cli.frame import wants_json
from offpath.cli.output import clean, clean_block, show
from offpath.cli.values import FAILED, NOT_FOUND, UNREACHABLE, USAGE, Failed, Part
from offpath.errors import (
    ConfigurationError,
    InvalidArgument,
    NotFound,
    OffpathError,
    StoreUnavailable,
    TaskError,
    UnknownTask,
)
from offpath.model.redact import redact_text

GIVEN = "offpath.given"
"""The key of the arguments of the program in ``click.Context.meta``."""
INTERRUPTED = 130
"""The exit code that shells have for a program that Ctrl-C ended."""

_EXITS: tuple[tuple[type[OffpathError], int], ...] = (
    (NotFound, NOT_FOUND),
    (UnknownTask, NOT_FOUND),
    (StoreUnavailable, UNREACHABLE),
    (ConfigurationError, USAGE),
    (InvalidArgument, USAGE),
    (TaskError, USAGE),
)


@cache
def registered() -> dict[str, EntryPoint]:
    """The commands that installed packages register, by name: those of the economy are so."""
    return {entry.name: entry for entry in entry_points(group="offpath.commands")}


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
        except click.ClickException as error:
            _refuse(error, as_json="--json" in given)
            code = error.exit_code
        except click.Abort:
            click.echo("Aborted!", err=True)
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

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of the core, and those that installed packages register."""
        return sorted({*super().list_commands(ctx), *registered()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; a registered one is loaded when it is asked for."""
        found = super().get_command(ctx, cmd_name)
        if found is None and (entry := registered().get(cmd_name)) is not None:
            command: click.Command = entry.load()
            self.add_command(command, cmd_name)
            return command
        return found

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command, and give its exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return INTERRUPTED
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's to tell; who reads no more (`| head`) needs no message
        except Exception as error:  # noqa: BLE001 - a person gets a line, --debug the traceback
            return _explain(error, debug=bool(ctx.params.get("debug")))


def _refuse(error: click.ClickException, *, as_json: bool) -> None:
    """Print what click refuses. Its own text repeats what was given as it is."""
    message = error.format_message()
    if as_json:
        show(Failed("usage", message), as_json=True)
        return
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"{clean(context.get_usage())}\n", err=True)
    click.echo(f"Error: {clean(message)}", err=True)


def _explain(error: Exception, *, debug: bool) -> int:
    """Print an error, and give its exit code."""
    value = failure(error)
    show(value, as_json=wants_json())
    if debug:
        shown = redact_text("".join(traceback.format_exception(error)))
        click.echo(clean_block(shown), err=True)
    elif value.code == "unexpected":
        click.echo("`offpath --debug …` shows where", err=True)
    logging.getLogger("offpath.cli").debug("the command failed", exc_info=error)
    return value.exit


def failure(error: Exception, *, parts: Sequence[Part] = (), **more: Any) -> Failed:  # noqa: ANN401 - any JSON
    """An error as the value of a command: parts are shown before it, more is in its document."""
    text = redact_text(str(error))
    if not isinstance(error, OffpathError):
        return Failed("unexpected", f"{type(error).__name__}: {text}", more=more, parts=parts)
    return Failed(error.code, text, _exit(error), more=more, parts=parts)


def _exit(error: OffpathError) -> int:
    if isinstance(error, ValueError):
        return USAGE  # the ledger's own errors of what was given are not imported here
    return next((number for kind, number in _EXITS if isinstance(error, kind)), FAILED)
