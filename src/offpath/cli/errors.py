"""The end of a command that failed: one clear line, or one document, and an exit code."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
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

_EXITS: tuple[tuple[type[OffpathError], int], ...] = (
    (NotFound, NOT_FOUND),
    (UnknownTask, NOT_FOUND),
    (StoreUnavailable, UNREACHABLE),
    (ConfigurationError, USAGE),
    (InvalidArgument, USAGE),
    (TaskError, USAGE),
)


def refuse(error: click.ClickException, *, as_json: bool) -> None:
    """Print what click refuses. Its own text repeats what was given as it is."""
    message = error.format_message()
    if as_json:
        show(Failed("usage", message), as_json=True)
        return
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"{clean(context.get_usage())}\n", err=True)
    click.echo(f"Error: {clean(message)}", err=True)


def explain(error: Exception, *, debug: bool) -> int:
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
