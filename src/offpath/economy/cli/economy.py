"""``offpath economy``: operations, payouts and subscriptions of an app's economy."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import actor, noting
from offpath.cli.apps import load_shared_app, target_of
from offpath.cli.frame import after_option, app_option, framed, limit_option, option_group
from offpath.cli.option_values import read_by, until_option
from offpath.cli.values import DONE, FAILED, Listing, Said, Table, next_of
from offpath.errors import ConfigurationError, InvalidArgument, OffpathError
from offpath.jobs.client.core import core_of
from offpath.model.json_text import decode_json

if TYPE_CHECKING:
    from offpath.economy import Economy, Outcome
    from offpath.economy.ledger.reads import Payout, Subscription
    from offpath.economy.ledger.requests import Request


def _economy(target: str | None) -> AbstractAsyncContextManager[Economy]:
    app = load_shared_app(target_of(target), None)
    if not core_of(app).economies:
        raise ConfigurationError(f"{target or 'the app'} has no economy: make an Economy(app, ...)")
    return _opened(app)


@asynccontextmanager
async def _opened(app: App) -> AsyncIterator[Economy]:
    async with app:
        yield app.economy


economy_command = framed(_economy, app_option("The app that has the economy."))
"""A command on an app's economy, which is its first argument."""


def _state_option(kind: str) -> Callable[[Any], Any]:
    def read(text: str, option: str) -> str:
        from offpath.model.ledger.records import STATES

        if (state := text.upper()) not in STATES[kind]:
            known = ", ".join(STATES[kind])
            raise InvalidArgument(f"{option} is one of {known}, not {state!r}")
        return state

    return click.option(
        "--state",
        "states",
        multiple=True,
        callback=read_by(read),
        help="Only those in this state; repeatable.",
    )


_user_option = click.option("--user", metavar="USER", help="Only those of this user.")


def _requests(file: BinaryIO) -> list[Request]:
    return list(_decoded(file))


def _decoded(file: BinaryIO) -> Iterator[Request]:
    """The operations of a file. Raises what is wrong with one, and in which line it is."""
    from offpath.economy import LedgerError
    from offpath.economy.ledger.wire import decode

    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield decode(decode_json(line, f"line {number}"))
            except LedgerError as error:
                raise type(error)(f"line {number}: {error}") from error


@click.group()
def economy() -> None:
    """Operations, payouts and subscriptions of an app."""


@economy.command("submit")
@option_group("requests", _requests, click.argument("file", type=click.File("rb")))
@economy_command
async def submit(economy: Economy, *, requests: list[Request]) -> Listing:
    r"""Submit the operations in FILE.

    FILE has one JSON object a line; - is standard input. Safe to repeat: each operation has a key,
    and happens once. Exit code 1 when one was a fault; a declined one is an answer.

    \b
    {"kind": "topUp", "key": "t-1", "actor": {"kind": "operator", "id": "ada"},
     "user": "ann", "amount": "CREDIT:10.00", "source": "card"}

    \b
    offpath economy submit top-ups.jsonl --app shop.app:app
    """
    async with noting(economy.app, "economy.submit", options={"operations": len(requests)}) as told:
        outcomes = await economy.submit_many(requests)
        documents = [
            _outcome(one.key, outcome) for one, outcome in zip(requests, outcomes, strict=True)
        ]
        states = Counter(str(one["status"]) for one in documents)
        told.count(states.pop("committed", 0), **states)
    rows = [(one["key"], one["status"], one["id"], _why(one)) for one in documents]
    table = Table(("key", "status", "posting or reason", "because"), rows, "no operations")
    faulty = any(one["status"] == "fault" for one in documents)
    return Listing(documents, table, exit=FAILED if faulty else DONE)


@economy.command("payouts")
@_user_option
@_state_option("payout")
@after_option(default="")
@limit_option
@economy_command
async def payouts(
    economy: Economy, *, user: str | None, states: tuple[str, ...], after: str, limit: int
) -> Listing:
    r"""List payouts: who asked for what, and how far it is.

    \b
    offpath economy payouts --state submitted --app shop.app:app
    """
    page = await economy.read.payouts(user, states=states, after=after, limit=limit)
    return _page([_payout(one) for one in page], limit, "no payouts")


@economy.command("subscriptions")
@_user_option
@_state_option("subscription")
@after_option(default="")
@limit_option
@economy_command
async def subscriptions(
    economy: Economy, *, user: str | None, states: tuple[str, ...], after: str, limit: int
) -> Listing:
    r"""List subscriptions: who pays whom, and until when.

    \b
    offpath economy subscriptions --user ann --app shop.app:app
    """
    page = await economy.read.subscriptions(user, states=states, after=after, limit=limit)
    return _page([_subscription(one) for one in page], limit, "no subscriptions")


@economy.command("debts")
@after_option(default="")
@limit_option
@economy_command
async def debts(economy: Economy, *, after: str, limit: int) -> Listing:
    r"""List debts: which users owe what to the platform.

    What comes in for them later pays it first; a writeOff gives it up.

    \b
    offpath economy debts --app shop.app:app
    """
    page = await economy.read.debts(after=after, limit=limit)
    items = [{"id": one.user, "owed": str(one.owed)} for one in page]
    return _page(items, limit, "nobody owes anything")


@economy.command("pause")
@until_option
@economy_command
async def pause(economy: Economy, *, until: datetime | None) -> Said:
    r"""Have the economy's sweeps rest on every worker. Operations are still taken.

    \b
    offpath economy pause --until 2026-12-01T06:00Z --app shop.app:app
    """
    async with noting(economy.app, "economy.pause", options={"until": until} if until else {}):
        await economy.pause(until=until)
    text = "paused" if until is None else f"paused until {output.when(until)}"
    return Said({"paused": True, "until": until}, text)


@economy.command("resume")
@economy_command
async def resume(economy: Economy) -> Said:
    r"""Have the economy's sweeps go on.

    \b
    offpath economy resume --app shop.app:app
    """
    async with noting(economy.app, "economy.resume") as told:
        changed = await economy.resume()
        told.count(int(changed), not_paused=int(not changed))
    return Said({"paused": False, "changed": changed}, "goes on" if changed else "was not paused")


@economy.command("audit")
@after_option(type=int, default=0)
@limit_option
@economy_command
async def audit(economy: Economy, *, after: int, limit: int) -> Listing:
    r"""List what was found and done about it, the newest first.

    Each record is a link of a hash chain, which `offpath ledger prove` and checkpoints cover.

    \b
    offpath economy audit --app shop.app:app
    """
    found = await economy.audit(before=after, limit=limit)
    items = [
        {
            "number": one.number,
            "at": output.when(one.at),
            "phase": one.phase.value,
            "subject": one.subject,
            "by": one.by,
            "detail": one.detail,
        }
        for one in found
    ]
    columns = tuple(items[0]) if items else ("number",)
    rows = [tuple(map(str, one.values())) for one in items]
    documents = [msgspec.to_builtins(one) for one in found]
    following = next_of(items, limit, lambda one: str(one["number"]))
    return Listing(documents, Table(columns, rows, "nothing was found"), following)


@economy.command("release")
@click.option("--reason", required=True, help="The reason why money may move again.")
@economy_command
async def release(economy: Economy, *, reason: str) -> Said:
    r"""Have payouts and fees go on that rest.

    They rest since a finding is contained. It is written to the audit, with who you are:
    OFFPATH_ACTOR, otherwise the user at this machine.

    \b
    offpath economy release --reason "the cash was paid in" --app shop.app:app
    """
    async with noting(economy.app, "economy.release", note=reason) as told:
        released = await economy.release(reason, by=actor())
        told.count(len(released), nothing_rested=int(not released))
    text = f"{' and '.join(released)} go on" if released else "nothing rested"
    return Said({"released": released}, text)


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
    """The detail of a fault or a decline in a table, beside its code."""
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


def _page(items: list[dict[str, Any]], limit: int, empty: str) -> Listing:
    columns = tuple(items[0]) if items else ("id",)
    table = Table(columns, [tuple(map(str, one.values())) for one in items], empty)
    return Listing(items, table, next_of(items, limit, lambda one: str(one["id"])))
