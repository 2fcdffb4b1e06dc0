"""The views of messages: one as JSON, a page of them, one with all that is known."""

from __future__ import annotations

from typing import Any

import msgspec

from offpath.cli import output
from offpath.cli.failures import failure_cell, failure_parts
from offpath.cli.values import Cell, Fields, Listing, Shown, Table
from offpath.model.message import Box, MessagePage, MessageRecord, MessageState
from offpath.model.redact import redact, redact_text

BOXES = {Box.OUT: "outbox", Box.IN: "inbox"}
"""The names of the two boxes, which are their commands."""


def message_page(page: MessagePage, box: Box) -> Listing:
    """A page of messages without their payloads."""
    middle = ("stream", "topic") if box is Box.OUT else ("source",)
    columns = ("id", *middle, "key", "state", "attempt", "written", "due", "last error")
    rows = [_row(one) for one in page.items]
    table = Table(columns, rows, f"the {BOXES[box]} has no such message", brief=True)
    return Listing([_listed(one) for one in page.items], table, next=page.next)


def _row(one: MessageRecord) -> tuple[Cell, ...]:
    middle = (one.stream, one.topic) if one.box is Box.OUT else (one.stream,)
    due = ""
    if one.state is MessageState.PENDING:
        due = "in hand" if one.held else output.ago(one.due_at)
    written = output.ago(one.created_at)
    error = failure_cell(one.failure)
    return one.id, *middle, one.key, _state(one), one.attempt, written, due, error


def _state(one: MessageRecord) -> str:
    return f"{one.state} ({one.reason})" if one.reason else str(one.state)


def _listed(one: MessageRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    for name in ("payload", "headers"):
        del plain[name]
    if (failure := plain["failure"]) is not None:
        failure["message"] = redact_text(failure["message"])
        if failure.get("traceback"):
            failure["traceback"] = redact_text(failure["traceback"])
    return plain


def message_shown(one: MessageRecord) -> Shown:
    """A message whole: payload and headers decoded, secrets hidden."""
    headers, payload = (redact(output.decoded(text)) for text in (one.headers, one.payload))
    middle = {"stream": one.stream, "topic": one.topic}
    fields: dict[str, Cell] = {
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
        "headers": output.json_text(headers),
        "payload": output.json_text(payload),
    }
    failure = failure_parts(one.failure) if one.failure else ()
    document = {**_listed(one), "headers": headers, "payload": payload}
    return Shown(document, [Fields(fields), *failure])
