"""``offpath economy``: operations, payouts and subscriptions of an app's economy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import load_shared_app, target_of
from offpath.cli.older_frame import FAILED, command, json_option, limit_option
from offpath.errors import ConfigurationError, InvalidArgument, OffpathError
from offpath.model import checks
from offpath.model.json_text import decode_json

if TYPE_CHECKING:
    from offpath.economy import Economy, Outcome
    from offpath.ledger.reading import Payout, Subscription
    from offpath.ledger.requests import Request

app_option = click.option(
    "--app", "target", metavar="MODULE:APP", help="Whose economy.  [env: OFFPATH_APP]"
)
user_option = click.option("--user", metavar="USER", help="Of this user only.")
state_option = click.option(
    "--state",
    "states",
    multiple=True,
    callback=lambda _context, _option, given: tuple(one.upper() for one in given),
    help="In this state; repeatable.",
)
after_option = click.option("--after", metavar="ID", default="", help="Go on after this id.")


def with_economy(
    target: str | None, work: Callable[[Economy], Awaitable[int | None]]
) -> int | None:
    """Open the app at the target, do the work with its economy, close it."""
    app = _loaded(target)
    if not app.economies:
        raise ConfigurationError(f"{target or 'the app'} has no economy: make an Economy(app, ...)")

    async def opened() -> int | None:
        async with app:
            return await work(app.economy)

    return asyncio.run(opened())


@click.group()
def economy() -> None:
    """Operations, payouts and subscriptions of an app."""


@economy.command("submit")
@click.argument("file", type=click.File("rb"))
@app_option
@json_option
@command
def submit(file: BinaryIO, target: str | None, *, as_json: bool) -> int | None:
    r"""Submit the operations in FILE.

    FILE has one JSON object a line; - is standard input. Safe to repeat: each operation has a key,
    and happens once. Exit code 1 when one was a fault; a declined one is an answer.

    \b
    {"kind": "topUp", "key": "t-1", "actor": {"kind": "operator", "id": "ada"},
     "user": "ann", "amount": "CREDIT:10.00", "source": "card"}

    \b
    offpath economy submit top-ups.jsonl --app shop.app:app
    """
    requests = list(_requests(file))

    async def work(found: Economy) -> int | None:
        outcomes = await found.submit_many(requests)
        documents = [
            _outcome(one.key, outcome) for one, outcome in zip(requests, outcomes, strict=True)
        ]
        if as_json:
            output.print_json({"items": documents})
        else:
            rows = [(one["key"], one["status"], one["id"], _why(one)) for one in documents]
            columns = ("key", "status", "posting or reason", "because")
            output.print_table(columns, rows, empty="no operations")
        return FAILED if any(one["status"] == "fault" for one in documents) else None

    return with_economy(target, work)


@economy.command("payouts")
@user_option
@state_option
@after_option
@limit_option
@app_option
@json_option
@command
def payouts(
    user: str | None,
    states: tuple[str, ...],
    after: str,
    limit: int,
    target: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""List payouts: who asked for what, and how far it is.

    \b
    offpath economy payouts --state submitted --app shop.app:app
    """
    _require_states("payout", states)

    async def work(found: Economy) -> None:
        page = await found.read.payouts(user, states=states, after=after, limit=limit)
        _print_page([_payout(one) for one in page], limit, "no payouts", as_json=as_json)

    return with_economy(target, work)


@economy.command("subscriptions")
@user_option
@state_option
@after_option
@limit_option
@app_option
@json_option
@command
def subscriptions(
    user: str | None,
    states: tuple[str, ...],
    after: str,
    limit: int,
    target: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""List subscriptions: who pays whom, and until when.

    \b
    offpath economy subscriptions --user ann --app shop.app:app
    """
    _require_states("subscription", states)

    async def work(found: Economy) -> None:
        page = await found.read.subscriptions(user, states=states, after=after, limit=limit)
        _print_page(
            [_subscription(one) for one in page], limit, "no subscriptions", as_json=as_json
        )

    return with_economy(target, work)


@economy.command("debts")
@after_option
@limit_option
@app_option
@json_option
@command
def debts(after: str, limit: int, target: str | None, *, as_json: bool) -> int | None:
    r"""List debts: which users owe what to the platform.

    What comes in for them later pays it first; a writeOff gives it up.

    \b
    offpath economy debts --app shop.app:app
    """

    async def work(found: Economy) -> None:
        page = await found.read.debts(after=after, limit=limit)
        items = [{"id": one.user, "owed": str(one.owed)} for one in page]
        _print_page(items, limit, "nobody owes anything", as_json=as_json)

    return with_economy(target, work)


@economy.command("pause")
@click.option("--until", metavar="TIME", help="ISO time with a zone when it ends.")
@app_option
@json_option
@command
def pause(until: str | None, target: str | None, *, as_json: bool) -> int | None:
    r"""Have the economy's sweeps rest on every worker. Operations are still taken.

    \b
    offpath economy pause --until 2026-12-01T06:00Z --app shop.app:app
    """
    end = None if until is None else moment(until, "--until")

    async def work(found: Economy) -> None:
        await found.pause(until=end)
        if as_json:
            output.print_json({"paused": True, "until": until})
        else:
            click.echo("paused" if until is None else f"paused until {until}")

    return with_economy(target, work)


@economy.command("resume")
@app_option
@json_option
@command
def resume(target: str | None, *, as_json: bool) -> int | None:
    r"""Have the economy's sweeps go on.

    \b
    offpath economy resume --app shop.app:app
    """

    async def work(found: Economy) -> None:
        changed = await found.resume()
        if as_json:
            output.print_json({"paused": False, "changed": changed})
        else:
            click.echo("goes on" if changed else "was not paused")

    return with_economy(target, work)


def _loaded(target: str | None) -> App:
    return load_shared_app(target_of(target), None)


def _requests(file: BinaryIO) -> Iterator[Request]:
    """The operations of a file. Raises what is wrong with one, and in which line it is."""
    from offpath.economy import LedgerError
    from offpath.ledger.wire import decode

    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield decode(decode_json(line, f"line {number}"))
            except LedgerError as error:
                raise type(error)(f"line {number}: {error}") from error


def moment(given: str, option: str) -> datetime:
    """The time that an option gives."""
    try:
        return checks.aware(datetime.fromisoformat(given), option)
    except ValueError as error:
        raise InvalidArgument(
            f"{option} is an ISO time with a zone, as 2026-01-31T00:00:00Z, not {given!r}"
        ) from error


def _require_states(kind: str, states: tuple[str, ...]) -> None:
    from offpath.model.ledger.records import STATES

    if unknown := sorted(set(states) - set(STATES[kind])):
        raise InvalidArgument(f"--state is one of {', '.join(STATES[kind])}, not {unknown[0]!r}")


def _outcome(key: str, outcome: Outcome | OffpathError) -> dict[str, Any]:
    from offpath.economy import Rejected

    if isinstance(outcome, OffpathError):
        message = output.clean(str(outcome))
        return {"key": key, "status": "fault", "id": outcome.code, "message": message}
    if isinstance(outcome, Rejected):
        fields = {"detail": outcome.fields}
        return {"key": key, "status": "rejected", "id": outcome.reason, **fields}
    status = str(outcome.__struct_config__.tag)
    return {"key": key, "status": status, "id": outcome.receipt.id}


def _why(document: dict[str, Any]) -> str:
    """What a table says of a fault or a decline beside its code."""
    detail = ", ".join(_field(*field) for field in document.get("detail", {}).items())
    return output.clean(str(document.get("message", detail)))


def _field(name: str, value: object) -> str:
    """A field of a decline; times are milliseconds on the wire, and times for people."""
    if name.endswith("At") and isinstance(value, int):
        value = output.when(datetime.fromtimestamp(value / 1000, UTC))
    return f"{name} {value}"


def _payout(payout: Payout) -> dict[str, Any]:
    return {
        "id": payout.id,
        "user": payout.user,
        "state": payout.state,
        "amount": str(payout.amount),
        "quote": str(payout.quote),
        "attempts": payout.attempts,
        "due": output.when(payout.due_at),
        "ref": payout.provider_ref or "",
        "reason": payout.reason or "",
    }


def _subscription(subscription: Subscription) -> dict[str, Any]:
    return {
        "id": subscription.id,
        "user": subscription.user,
        "seller": subscription.seller,
        "sku": subscription.sku,
        "state": subscription.state,
        "price": str(subscription.price),
        "period": subscription.number,
        "paid until": output.when(subscription.paid_until),
    }


def _print_page(items: list[dict[str, Any]], limit: int, empty: str, *, as_json: bool) -> None:
    if as_json:
        more = items[-1]["id"] if len(items) == limit else None
        output.print_json({"items": items, "next": more})
        return
    columns = tuple(items[0]) if items else ("id",)
    output.print_table(columns, [tuple(map(str, one.values())) for one in items], empty=empty)
