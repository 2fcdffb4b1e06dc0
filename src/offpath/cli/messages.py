"""What ``offpath outbox`` and ``offpath inbox`` share: how messages are chosen and shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.older_frame import NOT_FOUND, confirm
from offpath.cli.values import Cell
from offpath.errors import InvalidArgument, MessageNotFound
from offpath.model.message import Box, MessagePage, MessageRecord, MessageState
from offpath.model.redact import redact, redact_text

STATES = click.Choice([str(one) for one in MessageState])
_SPAN = re.compile(r"(\d{1,6})(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WORDS = {Box.OUT: "outbox", Box.IN: "inbox"}


def moment(text: str, what: str) -> datetime:
    """A time as people write it: ISO 8601 with its zone, or how long ago, as ``90s`` or ``2h``."""
    if span := _SPAN.fullmatch(text):
        seconds = int(span[1]) * _UNITS[span[2]]
        return datetime.now(UTC) - timedelta(seconds=seconds)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidArgument(
            f"{what} takes a time with its zone, as 2026-11-27T09:00Z, or how long ago, as 90s, "
            f"15m, 2h or 3d; not {text[:60]!r}"
        )
    return found


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The filter options of a command as the app's filters; those not given are left out."""
    names = {
        "stream": "streams",
        "source": "streams",
        "topic": "topics",
        "state": "states",
        "key": "keys",
        "reason": "reasons",
    }
    return {names[name]: value for name, value in given.items() if value}


def ask(
    ids: tuple[str, ...],
    where: dict[str, Any],
    verb: str,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    always: bool = False,
) -> None:
    """A bulk action is confirmed, and so is what loses something."""
    if ids and (everything or where):
        raise InvalidArgument("give message ids or a filter, not both")
    if everything and where:
        raise InvalidArgument("give --all or a filter, not both")
    if not (ids or everything or where):
        raise InvalidArgument("give message ids, a filter such as --key, or --all")
    if always or not ids:
        what = "these dead messages" if ids else "every dead message that matches"
        confirm(f"{verb} {'all dead messages' if everything else what}?", yes=yes, as_json=as_json)


async def one_of(app: App, box: Box, message_id: str) -> MessageRecord:
    """One message of this box. Raises ``MessageNotFound``."""
    found = await app.messages.get(message_id)
    if found.box is not box:
        other = _WORDS[found.box]
        raise MessageNotFound(f"{message_id} is in the {other}: offpath {other} show {message_id}")
    return found


async def change(
    app: App,
    box: Box,
    ids: Sequence[str],
    act: Callable[..., Awaitable[list[str]]],
    **where: Any,  # noqa: ANN401 - the filters of messages
) -> list[str]:
    """Act on messages of this box alone, by id or by filter; the ids of those changed."""
    if not ids:
        return await act(box=box, **where)
    own = [one for one in dict.fromkeys(ids) if await _is_in(app, box, one)]
    return await act(*own) if own else []


async def _is_in(app: App, box: Box, message_id: str) -> bool:
    try:
        return (await app.messages.get(message_id)).box is box
    except MessageNotFound:
        return False


def print_changed(changed: list[str], asked: tuple[str, ...], what: str, *, as_json: bool) -> int:
    """Print what was changed; not found when ids were given and none of them was."""
    left = [one for one in asked if one not in changed]
    if as_json:
        output.print_json({"changed": changed, "unchanged": left})
    else:
        for one in changed:
            click.echo(f"{one}  {what}")
        for one in left:
            click.echo(f"{output.clean(one)}  left alone: unknown, or not dead")
        click.echo(f"{len(changed)} {what}")
    return NOT_FOUND if asked and not changed else 0


def print_page(page: MessagePage, box: Box, *, as_json: bool) -> None:
    """Print a page of messages without their payloads, and how to see the next one."""
    if as_json:
        items = [_listed(one) for one in page.items]
        output.print_json({"items": items, "next": page.next})
        return
    middle = ("stream", "topic") if box is Box.OUT else ("source",)
    columns = ("id", *middle, "key", "state", "attempt", "written", "due", "last error")
    rows = [_row(one) for one in page.items]
    output.print_table(columns, rows, empty=f"the {_WORDS[box]} has no such message")
    if page.next:
        click.echo(f"more: add --after {page.next}", err=True)


def _row(one: MessageRecord) -> tuple[Cell, ...]:
    middle = (one.stream, one.topic) if one.box is Box.OUT else (one.stream,)
    failure = one.failure
    error = redact_text(f"{failure.type}: {failure.message}"[:100]) if failure else ""
    due = ""
    if one.state is MessageState.PENDING:
        due = "in hand" if one.held else output.ago(one.due_at)
    state = _state(one)
    written = output.ago(one.created_at)
    return one.id, *middle, one.key, state, one.attempt, written, due, error


def _state(one: MessageRecord) -> str:
    return f"{one.state} ({one.reason})" if one.reason else str(one.state)


def document(one: MessageRecord) -> dict[str, Any]:
    """A message as JSON: payload and headers decoded, secrets hidden."""
    plain = _listed(one)
    for name, value in (("headers", one.headers), ("payload", one.payload)):
        plain[name] = redact(output.decoded(value))
    return plain


def _listed(one: MessageRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    for name in ("payload", "headers"):
        del plain[name]
    if (failure := plain["failure"]) is not None:
        failure["message"] = redact_text(failure["message"])
        if failure.get("traceback"):
            failure["traceback"] = redact_text(failure["traceback"])
    return plain


def print_message(one: MessageRecord, *, as_json: bool) -> None:
    """Print one message whole, its secrets hidden."""
    told = document(one)
    if as_json:
        output.print_json(told)
        return
    middle = {"stream": one.stream, "topic": one.topic}
    lines: dict[str, Cell] = {
        "id": one.id,
        **(middle if one.box is Box.OUT else {"source": one.stream}),
        "key": one.key or "-",
        "state": _state(one),
        "attempt": one.attempt,
        "deliveries": one.deliveries,
        "in hand": "yes" if one.held else "no",
        "written": output.when(one.created_at),
        "due": output.when(one.due_at if one.state is MessageState.PENDING else None),
        "finished": output.when(one.finished_at),
        "kept until": output.when(one.expires_at),
        "headers": _json_text(told["headers"]),
        "payload": _json_text(told["payload"]),
    }
    for name, value in lines.items():
        click.echo(f"{name:>10}  {output.clean(str(value))}")
    if (failure := one.failure) is not None:
        kind = output.clean(failure.kind)
        click.echo(f"\nattempt {failure.attempt} failed {output.when(failure.at)} ({kind})")
        shown = failure.traceback or f"{failure.type}: {failure.message}"
        click.echo(f"  {output.clean_block(redact_text(shown)).rstrip()}")


def _json_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    return msgspec.json.encode(value).decode()
