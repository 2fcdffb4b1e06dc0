"""``offpath router``: its gates and routes, its runs, and what became of each event.

Running and redriving need the app, whose routes deliver; everything else works from the store
alone, also for routers that other services declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from offpath.app import App
from offpath.cli.action_log import noting, recorded
from offpath.cli.apps import known_app, load_shared_app, settings_app
from offpath.cli.former import former
from offpath.cli.frame import (
    after_option,
    app_option,
    confirm,
    confirmed,
    framed,
    limit_option,
    option_group,
    url_option,
    warnings_logged,
    yes_option,
)
from offpath.cli.option_values import Duration, past_time, read_by
from offpath.cli.router_views import (
    attempt_page,
    letter_page,
    letters_redriven,
    letters_shown,
    router_checks,
    router_list,
    router_redone,
    router_run,
    router_status,
    router_switched,
)
from offpath.cli.values import Listing, Said, Shown
from offpath.config import load_settings
from offpath.errors import ConfigurationError, InvalidArgument, RouterNotFound
from offpath.events.stored_router import MOST_LAG
from offpath.model.action import MOST_IDS
from offpath.model.brief import Kind
from offpath.model.route import AttemptStatus
from offpath.operating.short_ids import all_completed, completed

if TYPE_CHECKING:
    from offpath.events.router import Router


def _routing_app(target: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    """An app with routes: only it knows what they deliver to."""
    own = None if target or url else settings_app()
    if own is not None:
        return own
    target = target or load_settings().app
    if target is None:
        raise ConfigurationError(
            "only the app knows what its routes deliver to: write --app module:attribute, or set "
            "OFFPATH_APP"
        )
    return load_shared_app(target, url)


_shared = (app_option("The app that declares the routers."), url_option)
_command = framed(known_app, *_shared)
_routing_command = framed(_routing_app, *_shared)
_name = click.argument("name")


@click.group()
def router() -> None:
    """Routers of the event log: run, status, verify, enable, redrive."""


@router.command("list")
@_command
async def list_routers(app: App) -> Listing:
    r"""List every router: gates, lag, dead letters.

    \b
    offpath router list
    """
    await _declare(app)
    names = [record.name for record in await app.routers.records()]
    return router_list([await app.routers.stored(name).status() for name in names])


@router.command("status")
@click.argument("name", required=False)
@_command
async def status(app: App, *, name: str | None) -> Shown:
    r"""Tell how a router stands, or all.

    Gates, routes, cursors, lag, and who holds the log back.

    \b
    offpath router status iu --url postgresql://…
    """
    await _declare(app)
    records = await app.routers.records()
    names = [record.name for record in records] if name is None else [name]
    found = [await app.routers.stored(one).status() for one in names]
    return router_status(found, single=name is not None)


@router.command("run")
@_name
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="The most events of each partition.",
)
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    help="The only partition to read.  [default: all]",
)
@warnings_logged
@_routing_command
async def run(app: App, *, name: str, limit: int, partition: int | None) -> Shown:
    r"""Pass events of the log by the router NAME once.

    Exit code 0 when all went well, nothing was to be done or a gate is closed; 3 when some events
    became dead letters (degraded).

    \b
    offpath router run iu --app myservice.jobs:app
    """
    return router_run(await _declared(app, name).run_once(limit=limit, partition=partition))


@router.command("verify")
@_name
@click.option(
    "--most-lag",
    type=Duration(0),
    default=MOST_LAG,
    show_default=True,
    metavar="DURATION",
    help="The longest time that the router may be behind.",
)
@_command
async def verify(app: App, *, name: str, most_lag: float) -> Shown:
    r"""Check what must hold of a router.

    Numbered checks that only read. Exit code 1 when one fails. Without the app, whether live routes
    have a deliverer is not checked; a router that reads a table of your own needs the app (--app).

    \b
    offpath router verify iu --app myservice.jobs:app
    """
    one = _found(app, name) or app.routers.stored(name)
    return router_checks(name, await one.verify(most_lag=most_lag))


class _Switch(NamedTuple):
    """A gate or a route that is switched: without a name the master gate."""

    name: str | None
    route: str | None
    dry_run: bool | None


def _switched(
    name: str | None, route: str | None, *, master: bool, live: bool | None = None
) -> _Switch:
    if live is not None and route is None:
        raise InvalidArgument("--live and --dry-run switch a route: name it with --route")
    if master == (name is not None):
        raise InvalidArgument("give the name of a router, or --master")
    if master and route is not None:
        raise InvalidArgument("--route is of one router: give its name")
    return _Switch(name, route, None if live is None else not live)


_switch_options = (
    click.argument("name", required=False),
    click.option("--master", is_flag=True, help="Switch the gate of all routers."),
    click.option("--route", metavar="NAME", help="Switch this route, not the router's gate."),
)
_live_option = click.option(
    "--live/--dry-run", "live", default=None, help="Let the route send, or only decide."
)


def _switch_target(given: Mapping[str, Any]) -> Mapping[str, Any]:
    switch: _Switch = given["switch"]
    return {"name": switch.name or "master", **({"route": switch.route} if switch.route else {})}


def _letter_target(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"router": given["name"], "ids": [given["letter"]]}


@router.command("enable")
@option_group("switch", _switched, *_switch_options, _live_option)
@_command
@recorded("router.open", _switch_target)
async def enable(app: App, *, switch: _Switch) -> Said:
    r"""Open a gate, or switch a route on.

    The gate of the router NAME, or the master gate.

    \b
    offpath router enable --master
    offpath router enable iu
    offpath router enable iu --route 'paid:*' --live
    """
    return await _turn(app, switch, on=True)


@router.command("disable")
@option_group("switch", _switched, *_switch_options)
@_command
@recorded("router.close", _switch_target)
async def disable(app: App, *, switch: _Switch) -> Said:
    r"""Close a gate, or switch a route off.

    The gate of the router NAME, or the master gate.

    \b
    offpath router disable --master
    offpath router disable iu --route 'paid:*'
    """
    return await _turn(app, switch, on=False)


async def _turn(app: App, switch: _Switch, *, on: bool) -> Said:
    await _declare(app)
    if switch.name is None:
        await app.routers.open_gate(opened=on)
        return Said({"master": on}, f"the master gate is {'open' if on else 'closed'}")
    stored = app.routers.stored(switch.name)
    if switch.route is None:
        await stored.open_gate(opened=on)
    else:
        await stored.switch(switch.route, enabled=on, dry_run=switch.dry_run)
    return router_switched(await stored.record(), switch.route, on=on)


def _letters(name: str, ids: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not ids:
        confirm(f"Deliver every unresolved dead letter of {name} again?")
    return name, ids


@router.command("redrive")
@option_group("letters", _letters, _name, click.argument("ids", metavar="[LETTER]…", nargs=-1))
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="The most letters to deliver.",
)
@yes_option
@warnings_logged
@_routing_command
async def redrive(app: App, *, letters: tuple[str, tuple[str, ...]], limit: int) -> Shown:
    r"""Deliver dead letters of a router again.

    These, or all unresolved, the oldest first. Exit code 0 when all were resolved, 3 when some
    failed again, 1 when all did.

    \b
    offpath router redrive iu 0198c0de-… --app myservice.jobs:app
    offpath router redrive iu --yes --app myservice.jobs:app
    """
    name, ids = letters[0], await all_completed(app, Kind.LETTER, letters[1])
    target = {"router": name, "ids": ids[:MOST_IDS]}
    async with noting(app, "letter.redrive", target) as told:
        tally = await _declared(app, name).redrive(ids, limit=max(limit, len(ids)))
        bad = sum(len(tally.buckets.get(one, ())) for one in tally.bad)
        told.count(tally.total - bad, failed_again=bad)
    return letters_redriven(name, tally, ids)


former(router, "replay", redrive, advice="offpath router redrive")


@router.command("redo")
@_name
@click.option(
    "--status",
    "statuses",
    type=click.Choice(["dry_run", "skipped", "disabled"]),
    multiple=True,
    default=("dry_run", "skipped", "disabled"),
    help="Only events that ended so; may be repeated.  [default: all three]",
)
@click.option(
    "--since",
    callback=past_time,
    metavar="TIME",
    help="Only what was decided since then: 2026-11-27T09:00Z, or how long ago, as 90s, 2h or 3d.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="The most events that are decided otherwise.",
)
@confirmed("Decide again about what {name} only logged?")
@warnings_logged
@_routing_command
async def redo(
    app: App, *, name: str, statuses: tuple[str, ...], since: datetime | None, limit: int
) -> Shown:
    r"""Decide again about events that were only logged.

    The first in the log first. What is decided otherwise now is carried out; what is not stays as
    it is. Exit code 0 also when a gate is closed; 3 when some events became dead letters, 1 when
    all did.

    \b
    offpath router redo iu --status dry_run --since 2h --app myservice.jobs:app
    """
    asked = {"statuses": statuses, "since": since, "limit": limit}
    async with noting(app, "router.redo", {"name": name}, asked) as told:
        done = await _declared(app, name).redo(statuses, since=since, limit=limit)
        told.count(done.total)
    return router_redone(name, done)


@router.command("letters")
@_name
@click.argument("ids", metavar="[LETTER]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="List also those that are resolved.")
@limit_option
@after_option("POSITION", type=click.IntRange(min=0))
@_command
async def letters(
    app: App, *, name: str, ids: tuple[str, ...], everything: bool, limit: int, after: int | None
) -> Listing | Shown:
    r"""List the dead letters of a router.

    Those that are named by id are shown whole. Secrets (fields such as password or token) are
    hidden.

    \b
    offpath router letters iu
    offpath router letters iu 0198c0de-…
    """
    stored = app.routers.stored(name)
    if ids:
        ids = await all_completed(app, Kind.LETTER, ids)
        found = await stored.letters(ids, unresolved=False, limit=len(ids))
        return letters_shown(found, ids)
    found = await stored.letters(unresolved=not everything, limit=limit, after=after)
    return letter_page(found, limit)


def _place(text: str, option: str) -> tuple[int, int]:
    position, sign, number = text.partition(":")
    if not (position.isdecimal() and (number.isdecimal() if sign else True)):
        raise InvalidArgument(f"{option} takes POSITION:NUMBER, not {text[:60]!r}")
    return int(position), int(number) if sign else 0


@router.command("attempts")
@_name
@click.option("--event", metavar="ID", help="Only attempts at this event.")
@click.option(
    "--status",
    type=click.Choice([str(one) for one in AttemptStatus]),
    callback=read_by(lambda text, _option: AttemptStatus(text)),
    help="Only attempts that ended so.",
)
@limit_option
@after_option("POSITION:NUMBER", callback=read_by(_place))
@_command
async def attempts(
    app: App,
    *,
    name: str,
    event: str | None,
    status: AttemptStatus | None,
    limit: int,
    after: tuple[int, int] | None,
) -> Listing:
    r"""List what a router decided, and how it went.

    In the log's order.

    \b
    offpath router attempts iu --status failed
    """
    stored = app.routers.stored(name)
    event = None if event is None else await completed(app, Kind.EVENT, event)
    found = await stored.attempts(event=event, status=status, limit=limit, after=after)
    return attempt_page(found, limit)


@router.command("resolve")
@_name
@click.argument("letter")
@click.option(
    "--resolution", required=True, metavar="TEXT", help="What was done about the letter instead."
)
@_command
@recorded("letter.resolve", _letter_target, "resolution")
async def resolve(app: App, *, name: str, letter: str, resolution: str) -> Shown:
    r"""End a dead letter of the router NAME without a redrive. It is kept, with the resolution.

    \b
    offpath router resolve iu 0198c0de-… --resolution 'paid by hand'
    """
    stored = app.routers.stored(name)
    await stored.resolve(letter, resolution)
    return letters_shown(await stored.letters([letter], unresolved=False, limit=1), ())


async def _declare(app: App) -> None:
    """Put the app's routers into the store, as its first run would."""
    for one in app.routers.all():
        await one.record()


def _found(app: App, name: str) -> Router | None:
    return next((one for one in app.routers.all() if one.name == name), None)


def _declared(app: App, name: str) -> Router:
    if (found := _found(app, name)) is None:
        known = ", ".join(one.name for one in app.routers.all()) or "none"
        raise RouterNotFound(f"the app has no router {name!r}; it has {known}")
    return found
