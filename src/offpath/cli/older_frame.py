"""The older frame of commands: the store they work on, their options, and how errors end them."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import click

from offpath.app import App
from offpath.cli.apps import load_shared_app, require_schema, store_settings
from offpath.cli.output import clean_block, print_json
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

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

DONE, FAILED, USAGE, NOT_FOUND, UNREACHABLE = range(5)
INTERRUPTED = 130
"""As shells have it for a program that Ctrl-C ended."""

_EXITS: tuple[tuple[type[OffpathError], int], ...] = (
    (NotFound, NOT_FOUND),
    (UnknownTask, NOT_FOUND),
    (StoreUnavailable, UNREACHABLE),
    (ConfigurationError, USAGE),
    (InvalidArgument, USAGE),
    (TaskError, USAGE),
)


def options(*several: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help lists them in this order."""

    def add(function: F) -> F:
        for option in reversed(several):
            function = option(function)
        return function

    return add


url_option = click.option(
    "--url",
    metavar="URL",
    help="sqlite:///file.db or postgresql://…  [env: OFFPATH_URL, DATABASE_URL]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Most rows."
)
after_option = click.option("--after", metavar="ID", help="Go on after this id (the last page's).")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def command(function: Callable[P, int | None]) -> Callable[P, None]:
    """End the process as the function says, and every error with one clear line."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            code = function(*args, **kwargs)
        except OffpathError as error:
            code = explain(error, error.code, as_json=as_json)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's to tell; who reads no more (`| head`) needs no message
        except Exception as error:  # noqa: BLE001 - a person gets a line, --debug the traceback
            code = explain(error, "unexpected", as_json=as_json)
        sys.exit(code or DONE)

    # Click keeps the lines after a backspace as they are; a raw docstring has no such character.
    run.__doc__ = (function.__doc__ or "").replace("\\b", "\b")
    return run


def with_app(
    url: str | None, work: Callable[[App], Awaitable[int | None]], *, create: bool = False
) -> int | None:
    """Open an app on the store, do the work, close it.

    Raises ``SchemaMissing`` where nothing ever was, unless it may ``create``: a mistyped file
    name is not to become an empty database that looks fine.
    """
    app = App(settings=store_settings(url), auto_start=False)

    async def opened() -> int | None:
        if not create:
            await require_schema(app)
        async with app:
            return await work(app)

    return asyncio.run(opened())


def with_loaded_app(
    target: str, url: str | None, work: Callable[[App], Awaitable[int | None]]
) -> int | None:
    """Do the work with the app at ``target``; ``url`` is for an app that names no store."""
    app = load_shared_app(target, url)

    async def opened() -> int | None:
        async with app:
            return await work(app)

    return asyncio.run(opened())


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something is lost; a program must say --yes."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Repeat it with --yes")
    click.confirm(question, abort=True)


def explain(error: BaseException, code: str, *, as_json: bool) -> int:
    """Tell the user what went wrong, and return the exit code for it."""
    text = redact_text(str(error))
    if code == "unexpected":
        text = f"{type(error).__name__}: {text}"
    if as_json:
        print_json({"ok": False, "error": {"code": code, "message": text}})
    else:
        click.echo(f"error: {clean_block(text)} ({code})", err=True)
    if _debugging():
        shown = redact_text("".join(traceback.format_exception(error)))
        click.echo(clean_block(shown), err=True)
    elif code == "unexpected":
        click.echo("`offpath --debug …` shows where", err=True)
    logging.getLogger("offpath.cli").debug("the command failed", exc_info=error)
    return _exit(error)


def _exit(error: BaseException) -> int:
    if isinstance(error, OffpathError) and isinstance(error, ValueError):
        return USAGE  # the ledger's own errors of what was given are not imported here
    return next((number for kind, number in _EXITS if isinstance(error, kind)), FAILED)


def _debugging() -> bool:
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.find_root().params.get("debug"))
