"""Actions that their caller carries out at one go: noted before, held while it goes on, told after.

Where the caller dies, a verb that the table has is carried on by a worker, as any other action.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from offpath.app import App
from offpath.errors import OffpathError
from offpath.model.action import ActionProgress, ActionRecord, ActionState, NewAction
from offpath.model.redact import redact_text
from offpath.operating.actions import LEASE, Asker, held
from offpath.runtime.ids import new_id


@dataclass(slots=True)
class NotedOutcome:
    """The outcome of an action, as its caller says before it is over."""

    changed: int | None = None
    """None: it was not counted, so it is about one thing."""
    left: Mapping[str, int] = field(default_factory=dict)
    """The rows that were left alone, by the reason."""

    def count(self, changed: int, **left: int) -> None:
        """So many were changed, and so many left alone."""
        self.changed = changed
        self.left = {name: number for name, number in left.items() if number}


@asynccontextmanager
async def noted(app: App, order: NotedOrder, by: Asker) -> AsyncIterator[NotedOutcome]:
    """Note an action around what is done; an error of ours ends it as failed."""
    record = await begin(app, order, by)
    told = NotedOutcome()
    try:
        async with held(app, record):
            yield told
    except OffpathError as error:
        await end(app, record, told, error)
        raise
    await end(app, record, told)


class NotedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The thing that is done: a verb, its target, its options, and the reason."""

    verb: str
    target: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    note: str = ""


async def begin(app: App, order: NotedOrder, by: Asker) -> ActionRecord:
    """Note an action before it is carried out."""
    return await app.store().put_action(
        NewAction(
            id=new_id(),
            actor=by.name,
            via=by.via,
            verb=order.verb,
            target=_json(order.target),
            options=_json(order.options),
            note=order.note,
            holder=f"{by.via}/{new_id()}",
            lease=LEASE,
        )
    )


async def end(
    app: App, record: ActionRecord, told: NotedOutcome, error: OffpathError | None = None
) -> None:
    """Note how an action went."""
    changed = int(error is None) if told.changed is None else told.changed
    await app.store().step_action(
        ActionProgress(
            id=record.id,
            holder=record.holder,
            lease=LEASE,
            state=ActionState.DONE if error is None else ActionState.FAILED,
            changed=changed,
            unchanged=sum(told.left.values()),
            reasons=dict(told.left),
            error=None if error is None else redact_text(str(error)),
        )
    )


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
