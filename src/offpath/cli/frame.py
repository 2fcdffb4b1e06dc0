"""What all commands share: the store they work on, their options, and how errors end them."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import click

from offpath.app import App
from offpath.cli.output import print_json
from offpath.config import MEMORY_URL, Settings, load_settings
from offpath.errors import (
    ConfigurationError,
    InvalidArgument,
    JobNotFound,
    OffpathError,
    StoreUnavailable,
    TaskError,
    UnknownTask,
)
from offpath.model.redact import redact_text

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

DONE, FAILED, USAGE, NOT_FOUND, UNREACHABLE = range(5)

_EXITS: tuple[tuple[type[OffpathError], int], ...] = (
    (JobNotFound, NOT_FOUND),
    (UnknownTask, NOT_FOUND),
    (StoreUnavailable, UNREACHABLE),
    (ConfigurationError, USAGE),
    (InvalidArgument, USAGE),
    (TaskError, USAGE),
)

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
    """End the process as the function says, and every typed error with one clear line."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = function(*args, **kwargs)
        except OffpathError as error:
            code = _explain(error, as_json=bool(kwargs.get("as_json")))
        except KeyboardInterrupt:
            code = 130
        sys.exit(code or DONE)

    return run


def store_settings(url: str | None) -> Settings:
    """The settings, with a URL that other processes can see too."""
    settings = load_settings(url=url, database_url=True)
    if settings.url == MEMORY_URL:
        raise ConfigurationError(
            "no database is named: give --url sqlite:///file.db (or postgresql://…), "
            "or set OFFPATH_URL or DATABASE_URL"
        )
    return settings


def with_app(url: str | None, work: Callable[[App], Awaitable[int | None]]) -> int | None:
    """Open an app on the store, do the work, close it."""
    settings = store_settings(url)

    async def opened() -> int | None:
        async with App(settings=settings, auto_start=False) as app:
            return await work(app)

    return asyncio.run(opened())


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something is lost; a program must say --yes."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Repeat it with --yes")
    click.confirm(question, abort=True)


def _explain(error: OffpathError, *, as_json: bool) -> int:
    text = redact_text(str(error))
    if as_json:
        print_json({"ok": False, "error": {"code": error.code, "message": text}})
    else:
        click.echo(f"error: {text} ({error.code})", err=True)
    logging.getLogger("offpath.cli").debug("the command failed", exc_info=error)
    return next((code for kind, code in _EXITS if isinstance(error, kind)), FAILED)
