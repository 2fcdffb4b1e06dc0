"""``offpath enqueue``: put a job in from a shell."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import noting
from offpath.cli.apps import known_app
from offpath.cli.errors import failure
from offpath.cli.frame import app_option, framed, option_group, tell, url_option
from offpath.cli.option_values import Duration, given_only, once, pairs
from offpath.cli.values import Failed, Said
from offpath.errors import InvalidArgument, JobEnded, WaitTimeout
from offpath.jobs.client.core import core_of
from offpath.jobs.values.handle import Handle
from offpath.model.json_text import decode_json
from offpath.model.options import Options
from offpath.operating.task_names import unknown_task


def _arguments(values: tuple[tuple[str, str], ...], document: str | None) -> dict[str, Any]:
    if document is None:
        decoded = ((name, output.decoded(value)) for name, value in values)
        return once(decoded, "the argument")
    if values:
        raise InvalidArgument("give either NAME=VALUE pairs or --input, not both")
    return decode_json(document, "--input", type=dict[str, Any])


def _options(headers: tuple[tuple[str, str], ...], **given: Any) -> Options:  # noqa: ANN401 - any option
    return Options(headers=once(headers, "the header") or None, **given_only(**given))


def _app(target: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    """The app that is named; one without tasks makes its store."""
    return known_app(target, url, create=True)


@click.command()
@click.argument("task")
@option_group(
    "arguments",
    _arguments,
    click.argument(
        "values",
        callback=pairs("an argument is written NAME=VALUE"),
        nargs=-1,
        metavar="[NAME=VALUE]...",
    ),
    click.option("--input", "document", metavar="JSON", help="All arguments as one JSON object."),
)
@app_option("The app that has TASK: see above.")
@option_group(
    "options",
    _options,
    click.option("--queue", help="The job's queue."),
    click.option("--priority", type=int, help="The job's priority; higher ones run first."),
    click.option(
        "--delay", type=Duration(), metavar="DURATION", help="How long until the job is due."
    ),
    click.option(
        "--deadline",
        type=Duration(),
        metavar="DURATION",
        help="How long until it is dead if not done.",
    ),
    click.option("--unique", metavar="KEY", help="Enqueue only if no live job has this key."),
    click.option("--tag", "tags", multiple=True, help="A tag of the job; may be repeated."),
    click.option("--ref", help="A name of your own for the job: ref:NAME stands for its id."),
    click.option(
        "--header",
        "headers",
        callback=pairs("a header is written NAME=VALUE"),
        multiple=True,
        metavar="NAME=VALUE",
        help="A header of the job; may be repeated.",
    ),
)
@click.option("--wait", is_flag=True, help="Wait for the job's end, and print its result.")
@click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="The longest time to wait.  [default: no limit]",
)
@framed(_app, url_option)
async def enqueue(
    app: App,
    *,
    task: str,
    target: str | None,
    arguments: dict[str, Any],
    options: Options,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 - the user's limit
) -> Said | Failed:
    r"""Enqueue a job of TASK, by its name.

    Values are read as JSON where they are JSON, otherwise as text. With --wait the result is
    printed, and the exit code is 1 when the job did not succeed.

    With --app, or an app in OFFPATH_APP or the project file, the task is looked up: its arguments
    are checked, and its own options hold. Without one, or with --url alone, only its name is known:
    what is not given here is as built in, whatever queue, retries, timeout or limit the task has.

    \b
    offpath enqueue send_mail to=ada@example.org retries=3
    offpath enqueue add --input '{"a": 1, "b": 2}' --wait
    """
    # the arguments are the job's own: it hides their secrets, and its retention is its own
    async with noting(app, "job.enqueue", {"task": task}) as told:
        known = target is not None or bool(app.tasks)
        unknown = None if known or wait else await unknown_task(app, task)
        made = app.by_name(task, options, registered=known)
        handle = await made.enqueue(**arguments)
        told.count(int(handle.created), there_already=int(not handle.created))
    if not wait:
        note = "" if handle.created else "  (it was there already)"
        document = {"id": handle.id, "created": handle.created}
        if unknown:
            document["warning"] = unknown
        notes = [f"warning: {unknown}"] if unknown else ()
        return Said(document, f"{handle.id}{note}", notes)
    tell(handle.id)
    if not any(one.info.knows(task) for one in await app.workers() if not one.late):
        tell("no worker knows this task now; waiting for one")
    # The result as it is stored: JSON, whatever type the task makes of it.
    return await _waited(core_of(app).handle(handle.id, output.decoded), timeout)


async def _waited(waiting: Handle[Any, Any], timeout: float | None) -> Said | Failed:  # noqa: ASYNC109 - the user's limit
    try:
        result = await waiting.result(timeout=timeout)
    except (JobEnded, WaitTimeout) as error:
        return failure(error, id=waiting.id)
    document = {"ok": True, "id": waiting.id, "result": result}
    return Said(document, output.json_text(result))
