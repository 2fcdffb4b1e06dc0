"""Queues: how full they are, and which hand out nothing."""

from __future__ import annotations

from collections import Counter
from typing import Final

from offpath.model.limit import QueueRecord
from offpath.store.programs.instants import readable
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

COUNTED: Final = 100_000


def paused(session: Session, now: int) -> dict[str, int | None]:
    """The queues that hand out nothing now, and until when (None: until they are resumed)."""
    return {name: until for name, until in session.run(SQL["pause_list"](now=now))}  # noqa: C416 - typed rows


def pause(session: Session, name: str, until: int | None) -> None:
    """Hand out nothing of a queue."""
    session.run(SQL["pause_put"](name=name, until=until))


def resume(session: Session, now: int, name: str) -> bool:
    """Hand out its jobs again; False: it was not paused."""
    ended = session.run(SQL["pause_end"](name=name))
    return any(until is None or until > now for (until,) in ended)


def records(session: Session, now: int) -> list[QueueRecord]:
    """Queues with unended jobs or a pause, by name."""
    pauses = paused(session, now)
    counted = session.run(SQL["queue_running"](limit=COUNTED))
    running: dict[str, int] = {queue: number for queue, number in counted}  # noqa: C416 - typed rows
    held = _held(session)
    names = {row[0] for row in session.run(SQL["queue_names"]())}
    return [
        _record(session, name, running.get(name, 0), held[name], pauses)
        for name in sorted(names | running.keys() | held.keys() | pauses.keys())
    ]


def _held(session: Session) -> Counter[str]:
    """Jobs that wait to be admitted, by queue."""
    held = Counter[str]()
    keys = [row[0] for row in session.run(SQL["held_keys"]())]
    for key, queue in session.run(SQL["held_lines"](keys=batch(keys))):
        query = SQL["held_count"](key=key, queue=queue, limit=COUNTED)
        held[queue] += session.run(query)[0][0]
    return held


def _record(
    session: Session, name: str, running: int, held: int, pauses: dict[str, int | None]
) -> QueueRecord:
    query = SQL["queue_counts"](queue=name, limit=COUNTED)
    [[blocked, scheduled, ready]] = session.run(query)
    until = pauses.get(name)
    return QueueRecord(
        name=name,
        blocked=blocked + held,
        held=held,
        scheduled=scheduled,
        ready=ready,
        running=running,
        paused=name in pauses and until is None,
        paused_until=readable(until),
    )
