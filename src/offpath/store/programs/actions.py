"""Actions: what operators asked for, who carries it out, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from offpath.model.action import (
    ActionFilter,
    ActionProgress,
    ActionRecord,
    ActionState,
    NewAction,
)
from offpath.store.hints import Hint
from offpath.store.programs.answers import ActionRow
from offpath.store.programs.dialect import Dialect, Send, Steps, one
from offpath.store.programs.instants import readable
from offpath.store.unreadable import Shape


def put(d: Dialect, action: NewAction) -> Steps[ActionRecord]:
    """Note that something was asked for; what was asked for before by this id stays.

    Two statements, since the second one must see the row of another transaction.
    """
    batch = d.batch([action])
    added = d.sql["add_action"](batch=batch, lease=d.span(action.lease), now=d.now)
    _, rows = yield Send((added, d.sql["action"](id=action.id)), last=True)
    return _RECORDS.one(rows[0])


def step(d: Dialect, progress: ActionProgress) -> Steps[ActionRecord | None]:
    """Note how far it is; None when it is not this holder's any more."""
    query = d.sql["step_action"](
        id=progress.id,
        holder=progress.holder,
        state=progress.state.value,
        cursor=progress.cursor,
        changed=progress.changed,
        unchanged=progress.unchanged,
        reasons=d.json(dict(progress.reasons)),
        error=progress.error,
        lease=d.span(progress.lease),
        now=d.now,
    )
    if progress.lease <= 0:  # it was given back
        d.announced.tell(Hint.ACTIONS)
    return next(iter(_RECORDS.all((yield from one(query)))), None)


def take(
    d: Dialect, holder: str, *, verbs: Sequence[str], lease: float, skip: Sequence[str] = ()
) -> Steps[ActionRecord | None]:
    """Hold one whose holder's time is over."""
    query = d.sql["take_action"](
        holder=holder,
        verbs=d.batch(list(verbs)),
        skip=d.batch(list(skip)),
        lease=d.span(lease),
        now=d.now,
    )
    return next(iter(_RECORDS.all((yield from one(query)))), None)


def has_late(d: Dialect, *, verbs: Sequence[str], skip: Sequence[str] = ()) -> Steps[bool]:
    """True if the time of somebody who carries one out is over."""
    query = d.sql["late_action"](verbs=d.batch(list(verbs)), skip=d.batch(list(skip)), now=d.now)
    return bool((yield from one(query)))


def stop(d: Dialect, action: str) -> Steps[bool]:
    """End it between two steps; False: it is unknown, or has ended."""
    return bool((yield from one(d.sql["stop_action"](id=action, now=d.now))))


def listed(
    d: Dialect, where: ActionFilter, *, limit: int = 100, after: str | None = None
) -> Steps[list[ActionRecord]]:
    """Actions that match, newest first."""
    query = d.sql["actions"](
        # None stands for any: an empty list would match no action.
        ids=_any(d, where.ids),
        states=_any(d, [one.value for one in where.states]),
        verbs=_any(d, where.verbs),
        actors=_any(d, where.actors),
        after=after,
        limit=max(limit, 0),
    )
    return _RECORDS.all((yield from one(query)))


def prune(d: Dialect, *, before: datetime, limit: int) -> Steps[int]:
    """Remove old ones that have ended, or that nobody holds any more."""
    rows = yield from one(d.sql["prune_actions"](before=d.at(before), limit=limit))
    return len(rows)


def _any(d: Dialect, values: Sequence[str]) -> str | None:
    return d.batch(list(values)) if values else None


def _record(row: ActionRow) -> ActionRecord:
    told: dict[str, Any] = row._asdict()
    return ActionRecord(
        **{
            **told,
            "at": readable(row.at),
            "state": ActionState(row.state),
            "reasons": msgspec.json.decode(row.reasons, type=dict[str, int]),
            "resumed": bool(row.resumed),
            "held_until": readable(row.held_until),
            "finished_at": readable(row.finished_at),
        }
    )


_RECORDS: Final = Shape.of(
    ActionRow("", 0, "", "", "", "", "", "", "failed", None, 0, 0, "{}", None, 0, "", 0, None),
    _record,
    # An action has no field for the mark: neutral values stand for what cannot be read.
    lambda action, _: action,
)
