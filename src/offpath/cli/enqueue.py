"""``offpath enqueue``: put a job in from a shell."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.older_frame import (
    FAILED,
    command,
    json_option,
    url_option,
    with_app,
    with_loaded_app,
)
from offpath.errors import InvalidArgument, JobEnded, OffpathError, WaitTimeout
from offpath.jobs.values.handle import Handle
from offpath.model.json_text import decode_json
from offpath.model.options import Options
from offpath.model.redact import redact_text


@click.command()
@click.argument("task")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--input", "document", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--app", "target", metavar="MODULE:APP", help="The app that has TASK: see above.")
@click.option("--queue", help="Queue to put it in.")
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--delay", type=float, metavar="SECONDS", help="How long to wait before it is due.")
@click.option("--deadline", type=float, metavar="SECONDS", help="Dead if not done by then.")
@click.option("--unique", metavar="KEY", help="Enqueue only if no live job has this key.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait for its end, and print the result.")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long to wait at most.")
@url_option
@json_option
@command
def enqueue(
    task: str,
    values: tuple[str, ...],
    document: str | None,
    target: str | None,
    timeout: float | None,
    url: str | None,
    *,
    wait: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click passes them
) -> int | None:
    r"""Enqueue a job of TASK, by its name.

    Values are read as JSON where they are JSON, else as text. With --wait the result is printed,
    and the exit code is 1 when the job did not succeed.

    With --app the task is looked up: its arguments are checked, and its own options hold. Without
    it only its name is known: what is not given here is as built in, whatever queue, retries,
    timeout or limit the task has.

    \b
    offpath enqueue send_mail to=ada@example.org retries=3
    offpath enqueue add --input '{"a": 1, "b": 2}' --wait
    """
    arguments = _arguments(values, document)
    given = {name: value for name, value in options.items() if value not in (None, ())}

    async def work(app: App) -> int | None:
        sending = app.by_name(task, Options(**given), registered=target is not None)
        handle = await sending.enqueue(**arguments)
        if wait:
            if not as_json:
                click.echo(handle.id, err=True)
                await _warn_of_no_worker(app, task)
            # The result as it is stored: JSON, whatever type the task makes of it.
            waiting = app.handle(handle.id, output.decoded)
            return await _waited(waiting, timeout, as_json=as_json)
        _print_enqueued(handle, as_json=as_json)
        return None

    return (
        with_app(url, work, create=True) if target is None else with_loaded_app(target, url, work)
    )


def _arguments(values: tuple[str, ...], document: str | None) -> dict[str, Any]:
    if document is not None:
        if values:
            raise InvalidArgument("give either NAME=VALUE pairs or --input, not both")
        return _object(document)
    return dict(_pair(value) for value in values)


def _object(document: str) -> dict[str, Any]:
    return decode_json(document, "--input", type=dict[str, Any])


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidArgument(f"{text!r} is not of the form NAME=VALUE")
    return name, output.decoded(value)


def _print_enqueued(handle: Handle[Any, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"id": handle.id, "created": handle.created})
    else:
        note = "" if handle.created else "  (it was there already)"
        click.echo(f"{handle.id}{note}")


async def _waited(waiting: Handle[Any, Any], timeout: float | None, *, as_json: bool) -> int:  # noqa: ASYNC109 - the user's limit
    try:
        result = await waiting.result(timeout=timeout)
    except (JobEnded, WaitTimeout) as error:
        if as_json:
            document = {"ok": False, "id": waiting.id, "error": _error(error)}
            output.print_json(document)
        else:
            text = output.clean_block(redact_text(str(error)))
            click.echo(f"error: {text} ({error.code})", err=True)
        return FAILED
    if as_json:
        output.print_json({"ok": True, "id": waiting.id, "result": result})
    else:
        click.echo(output.clean(msgspec.json.encode(result).decode()))
    return 0


async def _warn_of_no_worker(app: App, task: str) -> None:
    if not any(task in one.info.tasks for one in await app.workers() if not one.late):
        click.echo("no worker knows this task now; waiting for one", err=True)


def _error(error: OffpathError) -> dict[str, str]:
    return {"code": error.code, "message": redact_text(str(error))}
