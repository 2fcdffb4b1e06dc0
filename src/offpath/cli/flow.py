"""``offpath queues`` and ``offpath limits``: list, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.older_frame import command, json_option, limit_option, url_option, with_app
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.limit import LimitRecord, QueueRecord, RateSpec

COUNTED = 100_000
"""Where the store stops counting."""

until_option = click.option("--until", metavar="TIME", help="ISO time with a zone when it ends.")
for_option = click.option("--for", "seconds", type=float, metavar="SECONDS", help="How long.")


@click.group()
def queues() -> None:
    """Queues: what waits in each, and pauses."""


@queues.command("list")
@url_option
@json_option
@command
def list_queues(url: str | None, *, as_json: bool) -> int | None:
    r"""List the queues that have jobs or are paused.

    \b
    offpath queues list
    """

    async def work(app: App) -> None:
        found = await app.queues.list()
        if as_json:
            output.print_json({"items": [queue_document(one) for one in found]})
        else:
            print_queues(found)

    return with_app(url, work)


@queues.command("pause")
@click.argument("name")
@until_option
@for_option
@url_option
@json_option
@command
def pause_queue(
    name: str, until: str | None, seconds: float | None, url: str | None, *, as_json: bool
) -> int | None:
    r"""Hand out no more jobs of the queue NAME, to any worker. What runs goes on.

    \b
    offpath queues pause mail --for 3600
    """

    async def work(app: App) -> None:
        end = await _end(app, until, seconds)
        told = await app.queues.unknown(name)
        await app.queues.pause(name, until=end)
        if told and not as_json:
            click.echo(f"warning: {told}", err=True)
        _tell({"name": name, "paused": True, "until": end}, _paused(name, end), as_json=as_json)

    return with_app(url, work)


@queues.command("resume")
@click.argument("name")
@url_option
@json_option
@command
def resume_queue(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Hand out the jobs of the queue NAME again.

    \b
    offpath queues resume mail
    """

    async def work(app: App) -> None:
        changed = await app.queues.resume(name)
        _tell({"name": name, "changed": changed}, _resumed(name, changed), as_json=as_json)

    return with_app(url, work)


@click.group()
def limits() -> None:
    """Limits by key: what runs, what is held, and pauses."""


@limits.command("list")
@limit_option
@click.option("--after", metavar="KEY", help="Go on after this key (the last page's).")
@url_option
@json_option
@command
def list_limits(limit: int, after: str | None, url: str | None, *, as_json: bool) -> int | None:
    r"""List the keys: how many may run, run, and are held.

    \b
    offpath limits list
    """

    async def work(app: App) -> None:
        found = await app.limits.list(limit=limit, after=after)
        if as_json:
            following = found[-1].key if len(found) == limit else None
            items = [limit_document(one) for one in found]
            output.print_json({"items": items, "next": following})
        else:
            print_limits(found)

    return with_app(url, work)


@limits.command("pause")
@click.argument("key")
@until_option
@for_option
@url_option
@json_option
@command
def pause_limit(
    key: str, until: str | None, seconds: float | None, url: str | None, *, as_json: bool
) -> int | None:
    r"""Start no more jobs of KEY, on any worker. What runs goes on.

    \b
    offpath limits pause api.example.org --for 600
    """

    async def work(app: App) -> None:
        end = await _end(app, until, seconds)
        back = await app.limits.pause(key, until=end)
        text = f"{_paused(key, end)}; {back} ready jobs are held again"
        document = {"key": key, "paused": True, "until": end, "held_again": back}
        _tell(document, text, as_json=as_json)

    return with_app(url, work)


@limits.command("resume")
@click.argument("key")
@url_option
@json_option
@command
def resume_limit(key: str, url: str | None, *, as_json: bool) -> int | None:
    r"""End the pause and the cool-down of KEY.

    \b
    offpath limits resume api.example.org
    """

    async def work(app: App) -> None:
        changed = await app.limits.resume(key)
        _tell({"key": key, "changed": changed}, _resumed(key, changed), as_json=as_json)

    return with_app(url, work)


# -- what was given --------------------------------------------------------------------------------


async def _end(app: App, until: str | None, seconds: float | None) -> datetime | None:
    """When the pause ends, by the store's clock; None: when somebody resumes it."""
    if until is not None and seconds is not None:
        raise InvalidArgument("--until and --for say the same: give one of them")
    if seconds is not None:
        rest = timedelta(seconds=checks.seconds(seconds, "--for"))
        return await app.store().ping() + rest
    if until is None:
        return None
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        moment = datetime.min  # noqa: DTZ901 - refused below, as any without a zone
    if moment.utcoffset() is None:
        raise InvalidArgument(
            f"--until is no ISO time with a zone: write 2026-01-31T08:00Z, not {until!r}"
        )
    return moment.astimezone(UTC)


# -- what is shown ---------------------------------------------------------------------------------


def print_queues(found: Sequence[QueueRecord]) -> None:
    """A table of queues."""
    columns = ("queue", "state", "ready", "running", "scheduled", "blocked", "held")
    rows = [
        (
            one.name,
            queue_state(one),
            *map(_counted, (one.ready, one.running, one.scheduled, one.blocked, one.held)),
        )
        for one in found
    ]
    output.print_table(columns, rows, empty="no queue has jobs or is paused")


def print_limits(found: Sequence[LimitRecord]) -> None:
    """A table of limits."""
    columns = ("key", "state", "max", "rate", "admitted", "running", "held")
    rows = [
        (
            one.key,
            limit_state(one),
            "-" if one.max_running is None else one.max_running,
            _rate(one.rate),
            one.admitted,
            one.running,
            _counted(one.held),
        )
        for one in found
    ]
    output.print_table(columns, rows, empty="no limit is known: no stored job has one")


def queue_state(one: QueueRecord) -> str:
    """A queue's state in words."""
    if one.paused_until is not None:
        return f"paused until {output.when(one.paused_until)}"
    return "paused" if one.paused else "on"


def limit_state(one: LimitRecord) -> str:
    """A key's state in words."""
    if one.paused:
        return "paused"
    return "on" if one.closed_until is None else f"closed until {output.when(one.closed_until)}"


def queue_document(one: QueueRecord) -> dict[str, Any]:
    """A queue as JSON."""
    plain: dict[str, Any] = msgspec.structs.asdict(one)
    return {**plain, "state": queue_state(one)}


def limit_document(one: LimitRecord) -> dict[str, Any]:
    """A key as JSON."""
    plain: dict[str, Any] = msgspec.to_builtins(one)
    rate = None if one.rate is None else msgspec.structs.asdict(one.rate)
    return {**plain, "rate": rate, "state": limit_state(one)}


def _counted(number: int) -> str:
    """Counting stops somewhere."""
    return f"{number}+" if number >= COUNTED else str(number)


def _rate(rate: RateSpec | None) -> str:
    return "-" if rate is None else f"{rate.count} per {rate.per:g} s, {rate.algorithm.value}"


def _paused(name: str, end: datetime | None) -> str:
    until = "until it is resumed" if end is None else f"until {output.when(end)}"
    return f"{name} is paused {until}"


def _resumed(name: str, changed: bool) -> str:
    return f"{name} goes on" if changed else f"{name} was not paused"


def _tell(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"ok": True, **document})
    else:
        click.echo(output.clean(text))
