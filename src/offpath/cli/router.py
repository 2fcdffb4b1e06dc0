"""``offpath router``: run, status, verify, enable, disable, replay, and looking at what it did.

Running and replaying need the app, whose routes deliver; everything else works from the store
alone, also for routers that other services declared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from offpath.app import App
from offpath.cli.logs import configure
from offpath.cli.older_frame import (
    DONE,
    FAILED,
    NOT_FOUND,
    F,
    command,
    confirm,
    json_option,
    limit_option,
    url_option,
    with_app,
    with_loaded_app,
    yes_option,
)
from offpath.cli.routed import (
    print_attempts,
    print_letter_page,
    print_letters,
    print_list,
    print_replayed,
    print_run,
    print_status,
    print_switched,
    print_verified,
)
from offpath.config import load_settings
from offpath.errors import ConfigurationError, InvalidArgument, RouterNotFound
from offpath.events.operating import MOST_LAG, StoredRouter
from offpath.model.route import AttemptStatus
from offpath.model.tally import Verdict

if TYPE_CHECKING:
    from offpath.events.router import Router

DEGRADED = 3
_EXITS = {
    Verdict.CLEAN: DONE,
    Verdict.EMPTY: DONE,
    Verdict.DEGRADED: DEGRADED,
    Verdict.FAILED: FAILED,
}

_app = click.option(
    "--app", "target", metavar="MODULE:APP", help="Whose routers.  [env: OFFPATH_APP]"
)
_route = click.option("--route", metavar="NAME", help="Switch this route, not the gate.")
_master = click.option("--master", is_flag=True, help="The gate of all routers.")
_name = click.argument("name")


def shared(function: F) -> F:
    """The options that every command ends with."""
    for option in (json_option, url_option, _app):
        function = option(function)
    return function


@click.group()
def router() -> None:
    """Routers of the event log: run, status, verify, enable, replay."""


@router.command("list")
@shared
@command
def list_routers(target: str | None, url: str | None, *, as_json: bool) -> int | None:
    r"""List every router: gates, lag, dead letters.

    \b
    offpath router list
    """

    async def work(app: App) -> None:
        await _declare(app)
        names = [record.name for record in await app.routers.records()]
        print_list([await app.routers.stored(name).status() for name in names], as_json=as_json)

    return _with(target, url, work)


@router.command("status")
@click.argument("name", required=False)
@shared
@command
def status(name: str | None, target: str | None, url: str | None, *, as_json: bool) -> int | None:
    r"""Tell how a router stands, or all.

    Gates, routes, cursors, lag, and who holds the log back.

    \b
    offpath router status iu --url postgresql://…
    """

    async def work(app: App) -> None:
        await _declare(app)
        records = await app.routers.records()
        names = [record.name for record in records] if name is None else [name]
        found = [await app.routers.stored(one).status() for one in names]
        print_status(found, as_json=as_json, single=name is not None)

    return _with(target, url, work)


@router.command("run")
@_name
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Most events of each partition.",
)
@click.option("--partition", type=click.IntRange(min=0), help="This partition alone.")
@shared
@command
def run(
    name: str,
    limit: int,
    partition: int | None,
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""Pass events of the log by the router NAME once.

    Exit code 0 when all went well, nothing was to be done or a gate is closed; 3 when some events
    became dead letters (degraded).

    \b
    offpath router run iu --app myservice.jobs:app
    """
    configure("warning", "text")

    async def work(app: App) -> int:
        done = await declared(app, name).run_once(limit=limit, partition=partition)
        print_run(done, as_json=as_json)
        return _EXITS[done.verdict]

    return with_routes(target, url, work)


@router.command("verify")
@_name
@click.option(
    "--most-lag",
    type=click.FloatRange(min=0),
    default=MOST_LAG,
    show_default=True,
    help="Seconds that it may be behind.",
)
@shared
@command
def verify(
    name: str, most_lag: float, target: str | None, url: str | None, *, as_json: bool
) -> int | None:
    r"""Check what must hold of a router.

    Numbered checks that only read. Exit code 1 when one fails. Without the app, whether live routes
    have a deliverer is not checked; a router that reads a table of your own needs the app (--app).

    \b
    offpath router verify iu --app myservice.jobs:app
    """

    async def work(app: App) -> int:
        found = _found(app, name)
        if found is None:
            checked = await app.routers.stored(name).verify(most_lag=most_lag)
        else:
            checked = await found.verify(most_lag=most_lag)
        print_verified(name, checked, as_json=as_json)
        return FAILED if any(one.fine is False for one in checked) else DONE

    return _with(target, url, work)


@router.command("enable")
@click.argument("name", required=False)
@_master
@_route
@click.option("--live/--dry-run", "live", default=None, help="Let the route send, or only decide.")
@shared
@command
def enable(
    name: str | None,
    route: str | None,
    target: str | None,
    url: str | None,
    *,
    master: bool,
    live: bool | None,
    as_json: bool,
) -> int | None:
    r"""Open a gate, or switch a route on.

    The gate of the router NAME, or the master gate.

    \b
    offpath router enable --master
    offpath router enable iu
    offpath router enable iu --route 'paid:*' --live
    """
    if live is not None and route is None:
        raise InvalidArgument("--live and --dry-run switch a route: name it with --route")
    dry_run = None if live is None else not live
    return _switch(
        name, route, target, url, master=master, on=True, dry_run=dry_run, as_json=as_json
    )


@router.command("disable")
@click.argument("name", required=False)
@_master
@_route
@shared
@command
def disable(
    name: str | None,
    route: str | None,
    target: str | None,
    url: str | None,
    *,
    master: bool,
    as_json: bool,
) -> int | None:
    r"""Close a gate, or switch a route off.

    The gate of the router NAME, or the master gate.

    \b
    offpath router disable --master
    offpath router disable iu --route 'paid:*'
    """
    return _switch(name, route, target, url, master=master, on=False, dry_run=None, as_json=as_json)


def _switch(
    name: str | None,
    route: str | None,
    target: str | None,
    url: str | None,
    *,
    master: bool,
    on: bool,
    dry_run: bool | None,
    as_json: bool,
) -> int | None:
    if master == (name is not None):
        raise InvalidArgument("give the name of a router, or --master")
    if master and route is not None:
        raise InvalidArgument("--route is of one router: give its name")

    async def work(app: App) -> None:
        await _declare(app)
        if name is None:
            await app.routers.open_gate(opened=on)
        elif route is None:
            await app.routers.stored(name).open_gate(opened=on)
        else:
            await app.routers.stored(name).switch(route, enabled=on, dry_run=dry_run)
        record = None if name is None else await app.routers.stored(name).record()
        print_switched(record, route, on=on, as_json=as_json)

    return _with(target, url, work)


@router.command("replay")
@_name
@click.argument("ids", metavar="[LETTER]…", nargs=-1)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most letters."
)
@yes_option
@shared
@command
def replay(
    name: str,
    ids: tuple[str, ...],
    limit: int,
    target: str | None,
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int | None:
    r"""Deliver dead letters of a router again.

    These, or all unresolved, the oldest first. Exit code 0 when all were resolved, 3 when some
    failed again, 1 when all did.

    \b
    offpath router replay iu 0198c0de-… --app myservice.jobs:app
    offpath router replay iu --yes --app myservice.jobs:app
    """
    configure("warning", "text")
    if not ids:
        confirm(f"Deliver every unresolved dead letter of {name} again?", yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        tally = await declared(app, name).replay(ids, limit=max(limit, len(ids)))
        left = print_replayed(name, tally, ids, as_json=as_json)
        if ids and len(left) == len(ids):
            return FAILED
        failed = tally.counts.get("failed", 0)
        return DONE if not failed else FAILED if failed == tally.total else DEGRADED

    return with_routes(target, url, work)


@router.command("letters")
@_name
@click.argument("ids", metavar="[LETTER]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Also those that are resolved.")
@limit_option
@click.option("--after", type=click.IntRange(min=0), help="Go on after this position.")
@shared
@command
def letters(
    name: str,
    ids: tuple[str, ...],
    limit: int,
    after: int | None,
    target: str | None,
    url: str | None,
    *,
    everything: bool,
    as_json: bool,
) -> int | None:
    r"""List the dead letters of a router.

    Those that are named by id are shown whole. Secrets (fields such as password or token) are
    hidden.

    \b
    offpath router letters iu
    offpath router letters iu 0198c0de-…
    """

    async def work(app: App) -> int:
        stored = app.routers.stored(name)
        if not ids:
            found = await stored.letters(unresolved=not everything, limit=limit, after=after)
            print_letter_page(found, limit, as_json=as_json)
            return DONE
        found = await stored.letters(ids, unresolved=False, limit=len(ids))
        print_letters(found, ids, as_json=as_json)
        return DONE if found else NOT_FOUND

    return _with(target, url, work)


@router.command("attempts")
@_name
@click.option("--event", metavar="ID", help="At this event alone.")
@click.option(
    "--status",
    type=click.Choice([str(one) for one in AttemptStatus]),
    help="Those that ended so.",
)
@limit_option
@click.option("--after", metavar="POSITION:NUMBER", help="Go on after this attempt.")
@shared
@command
def attempts(
    name: str,
    event: str | None,
    status: str | None,
    limit: int,
    after: str | None,
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""List what a router decided, and how it went.

    In the log's order.

    \b
    offpath router attempts iu --status failed
    """
    place = None if after is None else _place(after)
    wanted = None if status is None else AttemptStatus(status)

    async def work(app: App) -> None:
        stored = app.routers.stored(name)
        found = await stored.attempts(event=event, status=wanted, limit=limit, after=place)
        print_attempts(found, limit, as_json=as_json)

    return _with(target, url, work)


@router.command("resolve")
@_name
@click.argument("letter")
@click.option("--resolution", required=True, metavar="TEXT", help="How it was resolved.")
@shared
@command
def resolve(
    name: str,
    letter: str,
    resolution: str,
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""End a dead letter of the router NAME without a replay. It is kept, with the resolution.

    \b
    offpath router resolve iu 0198c0de-… --resolution 'paid by hand'
    """

    async def work(app: App) -> None:
        stored: StoredRouter = app.routers.stored(name)
        await stored.resolve(letter, resolution)
        print_letters(
            await stored.letters([letter], unresolved=False, limit=1), (), as_json=as_json
        )

    return _with(target, url, work)


# -- which app -------------------------------------------------------------------------------------


def _with(
    target: str | None, url: str | None, work: Callable[[App], Awaitable[int | None]]
) -> int | None:
    """Do the work with the app that is named, or from the store alone."""
    if target is None and url is None:
        target = load_settings().app
    if target is None:
        return with_app(url, work)
    return with_loaded_app(target, url, work)


def with_routes(
    target: str | None, url: str | None, work: Callable[[App], Awaitable[int | None]]
) -> int | None:
    """Do the work with an app: only it knows what its routes deliver to."""
    target = target or load_settings().app
    if target is None:
        raise ConfigurationError(
            "only the app knows what its routes deliver to: write --app module:attribute, or set "
            "OFFPATH_APP"
        )
    return with_loaded_app(target, url, work)


async def _declare(app: App) -> None:
    """Put the app's routers into the store, as its first run would."""
    for one in app.routers.all():
        await one.record()


def _found(app: App, name: str) -> Router | None:
    return next((one for one in app.routers.all() if one.name == name), None)


def declared(app: App, name: str) -> Router:
    """A router of the app. Raises :class:`RouterNotFound` naming those there are."""
    if (found := _found(app, name)) is None:
        known = ", ".join(one.name for one in app.routers.all()) or "none"
        raise RouterNotFound(f"the app has no router {name!r}; it has {known}")
    return found


def _place(text: str) -> tuple[int, int]:
    position, sign, number = text.partition(":")
    if not (position.isdecimal() and (number.isdecimal() if sign else True)):
        raise InvalidArgument(f"--after takes POSITION:NUMBER, not {text[:60]!r}")
    return int(position), int(number) if sign else 0
