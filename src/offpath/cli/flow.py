"""``offpath queues`` and ``offpath limits``: list, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import named, recorded
from offpath.cli.frame import after_option, limit_option, option_group, store_command
from offpath.cli.option_values import Duration, until_option
from offpath.cli.values import Listing, Said, Table, next_of
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.limit import LimitRecord, QueueRecord, RateSpec
from offpath.operating.documents.flow import (
    describe_limit,
    describe_queue,
    limit_state,
    queue_state,
)

COUNTED = 100_000
"""The number at which the store stops counting."""


class _End(NamedTuple):
    """The end of a pause: a time, a number of seconds from now, or none until it is resumed."""

    until: datetime | None
    seconds: float | None

    async def at(self, app: App) -> datetime | None:
        """The time by the store's clock."""
        if self.seconds is None:
            return self.until
        return await app.store().ping() + timedelta(seconds=self.seconds)


def _end(until: datetime | None, seconds: float | None) -> _End:
    if until is not None and seconds is not None:
        raise InvalidArgument("--until and --for say the same: give one of them")
    return _End(until, None if seconds is None else checks.seconds(seconds, "--for"))


_end_options = option_group(
    "end",
    _end,
    until_option,
    click.option(
        "--for", "seconds", type=Duration(), metavar="DURATION", help="The pause's length."
    ),
)


@click.group()
def queues() -> None:
    """Queues: what waits in each, and pauses."""


@queues.command("list")
@store_command
async def list_queues(app: App) -> Listing:
    r"""List the queues that have jobs or are paused.

    \b
    offpath queues list
    """
    found = await app.queues.list()
    return Listing([describe_queue(one) for one in found], _queue_table(found))


@queues.command("pause")
@click.argument("name")
@_end_options
@store_command
@recorded("queue.pause", named())
async def pause_queue(app: App, *, name: str, end: _End) -> Said:
    r"""Hand out no more jobs of the queue NAME, to any worker. What runs goes on.

    \b
    offpath queues pause mail --for 3600
    """
    until = await end.at(app)
    unknown = await app.queues.unknown(name)
    await app.queues.pause(name, until=until)
    document = {"ok": True, "name": name, "paused": True, "until": until}
    return Said(document, _paused(name, until), [f"warning: {unknown}"] if unknown else ())


@queues.command("resume")
@click.argument("name")
@store_command
@recorded("queue.resume", named())
async def resume_queue(app: App, *, name: str) -> Said:
    r"""Hand out the jobs of the queue NAME again.

    \b
    offpath queues resume mail
    """
    changed = await app.queues.resume(name)
    return Said({"ok": True, "name": name, "changed": changed}, _resumed(name, changed))


@click.group()
def limits() -> None:
    """Limits by key: what runs, what is held, and pauses."""


@limits.command("list")
@limit_option
@after_option("KEY")
@store_command
async def list_limits(app: App, *, limit: int, after: str | None) -> Listing:
    r"""List the keys: how many may run, run, and are held.

    \b
    offpath limits list
    """
    found = await app.limits.list(limit=limit, after=after)
    following = next_of(found, limit, lambda one: one.key)
    return Listing([describe_limit(one) for one in found], limit_table(found), following)


@limits.command("pause")
@click.argument("key")
@_end_options
@store_command
@recorded("limit.pause", named("key"))
async def pause_limit(app: App, *, key: str, end: _End) -> Said:
    r"""Start no more jobs of KEY, on any worker. What runs goes on.

    \b
    offpath limits pause api.example.org --for 600
    """
    until = await end.at(app)
    back = await app.limits.pause(key, until=until)
    document = {"ok": True, "key": key, "paused": True, "until": until, "held_again": back}
    return Said(document, f"{_paused(key, until)}; {back} ready jobs are held again")


@limits.command("resume")
@click.argument("key")
@store_command
@recorded("limit.resume", named("key"))
async def resume_limit(app: App, *, key: str) -> Said:
    r"""End the pause and the cool-down of KEY.

    \b
    offpath limits resume api.example.org
    """
    changed = await app.limits.resume(key)
    return Said({"ok": True, "key": key, "changed": changed}, _resumed(key, changed))


# -- what is shown ---------------------------------------------------------------------------------


def _queue_table(found: Sequence[QueueRecord]) -> Table:
    columns = ("queue", "state", "ready", "running", "scheduled", "blocked", "held")
    rows = [
        (
            one.name,
            queue_state(one),
            *map(_counted, (one.ready, one.running, one.scheduled, one.blocked, one.held)),
        )
        for one in found
    ]
    return Table(columns, rows, "no queue has jobs or is paused")


def limit_table(found: Sequence[LimitRecord]) -> Table:
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
    return Table(columns, rows, "no limit is known: no stored job has one")


def _counted(number: int) -> str:
    """Counting stops somewhere."""
    return f"{number}+" if number >= COUNTED else str(number)


def _rate(rate: RateSpec | None) -> str:
    return "-" if rate is None else f"{rate.count} per {rate.per:.10g} s, {rate.algorithm.value}"


def _paused(name: str, end: datetime | None) -> str:
    until = "until it is resumed" if end is None else f"until {output.when(end)}"
    return f"{name} is paused {until}"


def _resumed(name: str, changed: bool) -> str:
    return f"{name} goes on" if changed else f"{name} was not paused"
