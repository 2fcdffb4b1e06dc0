"""What is committed together: new jobs, then messages, then events of the log, group counts last.

Rows are only added, so that nothing here waits for what a settlement has locked; see the lock order
in ``docs/architecture.md``. Messages and events are sent in an order that is the same for everybody
who writes the same ids or keys, with their places in the order of writing beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from offpath.errors import InvalidArgument, StoreRejected
from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.job import Enqueued, NewJob
from offpath.model.new import Box, NewLogEvent, NewMessage
from offpath.store.postgres.changing import dead, told
from offpath.store.postgres.enqueue import add_jobs, join_roots
from offpath.store.postgres.gates import add_gates, require_gates
from offpath.store.postgres.groups import GroupWork
from offpath.store.postgres.steps import Enqueueing, chunks, ids_json, moment, to_json
from offpath.store.sql import Catalogue

_CHUNK: Final = 2000


class _Message(Struct, frozen=True, omit_defaults=True):
    n: int
    id: str
    box: Box
    stream: str
    payload: str
    topic: str = ""
    key: str | None = None
    headers: str = "{}"
    delay: float = 0.0


class _Place(NamedTuple):
    """What a row that was added shares with no other message, except for a plain repeat."""

    id: str
    box: str
    stream: str
    key: str | None


class _Event(Struct, frozen=True, omit_defaults=True):
    n: int
    id: str
    domain: str
    type: str
    stream: str
    payload: str
    key: str | None = None
    slot: int = 0


def commit_steps(
    effects: Effects, now: datetime | None, *, sql: Catalogue
) -> Enqueueing[list[Enqueued]]:
    """Write ``effects``; answers for the jobs, then for the messages.

    Raises ``Conflict`` kinds after taking back what it wrote, so that a caller's transaction may go
    on. All of it happens in the transaction that runs it, or none.
    """
    if effects.contributions:
        raise InvalidArgument(
            "only a settled job can contribute to the value of its group: "
            "put the contribution into the effects of a settlement"
        )
    answers, work = yield from carry_out({0: effects}, now, sql=sql)
    left = yield from work.writing(now, sql=sql)
    return with_deaths(answers[0], told(dead(work.moved), left))


def carry_out(
    carried: Mapping[int, Effects],
    now: datetime | None,
    *,
    settled: frozenset[str] = frozenset(),
    ended: Collection[str] = (),
    joining: Iterable[str] = (),
    sql: Catalogue,
) -> Enqueueing[tuple[dict[int, tuple[Enqueued, ...]], GroupWork]]:
    """Write the effects of several settlements; answers by their numbers.

    Also returns what is still to be written about groups. ``settled`` are the jobs that this
    transaction is ending, ``ended`` those of them that it will count in gates; those of ``joining``
    get a group with a row, company or not.
    """
    _require_keys(one for effects in carried.values() for one in effects.messages)
    jobs = [job for effects in carried.values() for job in effects.jobs]
    gates = [gate for effects in carried.values() for gate in effects.gates]
    gated = bool(gates) or any(job.gate is not None for job in jobs)
    if not settled and (gated or any(job.unique for job in jobs)):
        yield from _hold_others(jobs, gates, sql)
    if gated:
        yield from require_gates(jobs, gates, sql=sql)
    answers, work = yield from add_jobs(jobs, now, gates, sql=sql)
    work.more.update(dict.fromkeys(joining, 0))
    yield from join_roots(work, settled, sql=sql)
    written = yield from add_messages(
        [one for effects in carried.values() for one in effects.messages], now, sql=sql
    )
    yield from add_log([one for effects in carried.values() for one in effects.log], now, sql=sql)
    if gated:
        work.moved += yield from add_gates(gates, jobs, answers, now, ended=ended, sql=sql)
        work.end_moved(work.moved)
    of_jobs, of_messages = iter(answers), iter(written)
    return {
        n: (
            *(next(of_jobs) for _ in effects.jobs),
            *(next(of_messages) for _ in effects.messages),
        )
        for n, effects in carried.items()
    }, work


def _hold_others(
    jobs: Sequence[NewJob], gates: Sequence[NewGate], sql: Catalogue
) -> Enqueueing[None]:
    """Lock the roots that get company, with the watched jobs, before a key is waited for."""
    roots = {job.group_id for job in jobs if job.group_id is not None} - {job.id for job in jobs}
    if roots:
        yield sql["lock_jobs"](ids=ids_json(roots.union(*(gate.on for gate in gates))))


def add_messages(
    messages: Sequence[NewMessage], now: datetime | None, *, sql: Catalogue
) -> Enqueueing[list[Enqueued]]:
    """Add messages; answers in their order. Positions grow in that order, too."""
    answers: list[Enqueued] = []
    for piece in chunks(messages, _CHUNK):
        batch = [_message(n, one) for n, one in enumerate(piece, 1)]
        if len({one.id for one in piece}) == len(piece):
            batch.sort(key=_rank)  # else they stay as given, so that the first of an id is kept
        rows = yield sql["add_messages"](now=moment(now), count=len(piece), batch=to_json(batch))
        added = {_Place(*row) for row in rows}
        repeats = [one for one in piece if one.box is Box.IN and _written_as(one) not in added]
        accepted: dict[_Place, str] = {}
        if repeats:
            accepted = yield from _accepted(repeats, {each.id for each in added}, sql)
        answers += _answers(piece, added, accepted)
    return answers


def add_log(
    events: Sequence[NewLogEvent], now: datetime | None, *, sql: Catalogue
) -> Enqueueing[None]:
    """Append events in their order; those whose id is there already are left out."""
    for piece in chunks(events, _CHUNK):
        batch = [_event(n, one) for n, one in enumerate(piece, 1)]
        batch.sort(key=lambda one: (one.id, one.n))
        yield sql["add_log"](now=moment(now), count=len(piece), batch=to_json(batch))


def _require_keys(messages: Iterable[NewMessage]) -> None:
    for one in messages:
        if one.box is Box.IN and one.key is None:
            message = (
                f"the inbox message {one.id} has no key: give the sender's id of the delivery, "
                "by which repeats are told"
            )
            raise StoreRejected(message)


def _accepted(
    repeats: Sequence[NewMessage], added: set[str], sql: Catalogue
) -> Enqueueing[dict[_Place, str]]:
    """Who has the keys of these. One whose own id was there before tells that instead."""
    keys = [{"id": one.id, "stream": one.stream, "key": one.key} for one in repeats]
    rows = yield sql["accepted_messages"](batch=to_json(keys))
    return {
        _Place(new, Box.IN, stream, key): accepted
        for new, stream, key, accepted, there in rows
        if not there or new in added
    }


def _answers(
    messages: Iterable[NewMessage], added: set[_Place], accepted: Mapping[_Place, str]
) -> Iterable[Enqueued]:
    """The first of equal ids was added; of a known key the id that was accepted before."""
    known: set[str] = set()
    for one in messages:
        place = _written_as(one)
        created = place in added and one.id not in known
        if created:
            known.add(one.id)
        there = one.id if one.id in known else accepted.get(place, one.id)
        yield Enqueued(id=one.id, job_id=there, created=created)


def _written_as(one: NewMessage) -> _Place:
    return _Place(one.id, one.box, one.stream, one.key)


def _message(n: int, one: NewMessage) -> _Message:
    return _Message(
        n,
        one.id,
        one.box,
        one.stream,
        one.payload,
        one.topic,
        one.key,
        one.headers,
        one.delay,
    )


def _rank(one: _Message) -> tuple[str, str, str, int]:
    """By what tells a repeat: the id in the outbox, source and key in the inbox."""
    if one.box is Box.IN:
        return one.box, one.stream, one.key or "", one.n
    return one.box, one.id, "", one.n


def _event(n: int, one: NewLogEvent) -> _Event:
    return _Event(n, one.id, one.domain, one.type, one.stream, one.payload, one.key, one.slot)
