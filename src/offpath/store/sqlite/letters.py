"""What routers decided: attempts, and the dead letters that are replayed or resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.route import Attempt, AttemptStatus, Letter, LogEvent
from offpath.store.programs.instants import readable
from offpath.store.sql import Row
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session
from offpath.store.unreadable import UNREADABLE_EVENT, Shape, mark

_encode = msgspec.json.Encoder().encode
_event: Final = msgspec.json.Decoder(LogEvent).decode


def attempt_row(one: Attempt) -> tuple[Any, ...]:
    """As it is written."""
    status = one.status.value
    return (one.router, one.event, one.number, one.position, status, one.route, one.detail)


def letter_row(one: Letter) -> tuple[Any, ...]:
    """As it is written. Raises ``StoreRejected`` for an event that is no text."""
    event = one.event
    try:
        document = _encode(replace(event, decided=False)).decode()
    except UnicodeEncodeError as error:
        message = "an event's text holds a lone surrogate (half a character)"
        raise StoreRejected(message) from error
    head = (one.id, one.router, one.route, event.id, event.position)
    return (*head, document, one.reason, one.detail, one.number)


def attempts(
    session: Session,
    router: str,
    *,
    event: str | None,
    status: AttemptStatus | None,
    limit: int,
    after: tuple[int, int] | None,
) -> list[Attempt]:
    """Attempts by position and number."""
    position, number = after or (-1, 0)
    query = SQL["attempt_list"](
        router=router,
        event=event,
        status=None if status is None else status.value,
        position=position,
        number=number,
        limit=max(limit, 0),
    )
    return _ATTEMPTS.all(session.run(query))


def attempted(session: Session, router: str, events: Sequence[str]) -> frozenset[str]:
    """Those of some events that have an attempt."""
    rows = session.run(SQL["attempted"](router=router, events=batch(list(events))))
    return frozenset(row[0] for row in rows)


def _attempt(row: Row) -> Attempt:
    return Attempt(
        router=row[0],
        event=row[1],
        position=row[2],
        status=AttemptStatus(row[3]),
        route=row[4],
        number=row[5],
        detail=row[6],
        at=readable(row[7]),
    )


def letters(
    session: Session,
    router: str,
    *,
    ids: Iterable[str],
    unresolved: bool,
    limit: int,
    after: int | None,
) -> list[Letter]:
    """Dead letters by the position of their event."""
    wanted = list(ids)
    query = SQL["letter_list"](
        router=router,
        ids=batch(wanted) if wanted else None,
        unresolved=unresolved,
        limit=max(limit, 0),
        after=-1 if after is None else after,
    )
    return _LETTERS.all(session.run(query))


def _letter(row: Row) -> Letter:
    return Letter(
        id=row[0],
        router=row[1],
        route=row[2],
        event=_event(row[3]),
        reason=row[4],
        detail=row[5],
        number=row[6],
        created_at=readable(row[7]),
        resolved_at=readable(row[8]),
        resolution=row[9],
    )


_ATTEMPTS: Final = Shape(
    _attempt,
    ("router", "event", "position", "status", "route", "number", "detail", "at"),
    ("", "", 0, "failed", "", 1, None, 0),
    lambda attempt, _: attempt,
)
_LETTERS: Final = Shape(
    _letter,
    (
        "id",
        "router",
        "route",
        "document",
        "reason",
        "detail",
        "number",
        "created_at",
        "resolved_at",
        "resolution",
    ),
    ("", "", "", UNREADABLE_EVENT, "", "", 1, 0, None, None),
    lambda letter, bad: replace(letter, event=replace(letter.event, unreadable=mark(bad))),
)


def record_replay(
    session: Session,
    now: int,
    letter: Letter,
    attempt: Attempt,
    resolution: str | None,
    effects: Effects,
) -> bool:
    """Write a replay; False when the letter has changed meanwhile."""
    query = SQL["letter_replayed"](
        id=letter.id, number=letter.number, next=attempt.number, resolution=resolution, now=now
    )
    if not session.run(query):
        return False
    session.stirred = session.stirred or effects.stirs_messages
    session.run(SQL["attempt_add"](batch=batch([attempt_row(attempt)]), now=now))
    session.drive(effect_steps(effects, now))
    return True


def redoable(
    session: Session,
    router: str,
    statuses: Iterable[AttemptStatus],
    *,
    since: int | None,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Attempt]:
    """The last attempts that ended so, by position and event."""
    position, event = after or (-1, "")
    query = SQL["redoable"](
        router=router,
        statuses=batch([one.value for one in statuses]),
        since=since,
        position=position,
        event=event,
        limit=max(limit, 0),
    )
    return _ATTEMPTS.all(session.run(query))


def record_redo(
    session: Session, now: int, attempt: Attempt, letter: Letter | None, effects: Effects
) -> bool:
    """Write one more attempt at an event; False when there is one of that number."""
    known = SQL["attempt_known"](router=attempt.router, event=attempt.event, number=attempt.number)
    if session.run(known):
        return False
    session.stirred = session.stirred or effects.stirs_messages
    session.run(SQL["attempt_add"](batch=batch([attempt_row(attempt)]), now=now))
    if letter is not None:
        session.run(SQL["letter_add"](batch=batch([letter_row(letter)]), now=now))
    session.drive(effect_steps(effects, now))
    return True


def resolve(session: Session, now: int, letter: str, resolution: str) -> bool:
    """End a dead letter; False: unknown, or resolved before."""
    return bool(session.run(SQL["letter_resolve"](id=letter, resolution=resolution, now=now)))
