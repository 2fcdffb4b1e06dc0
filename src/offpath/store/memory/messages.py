"""Transitions of messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from offpath.errors import Conflict, StoreRejected
from offpath.model.ledger.faults import LedgerError
from offpath.model.message import (
    Box,
    LeasedMessages,
    MessageBacklog,
    MessageFilter,
    MessageLook,
    MessagePage,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
)
from offpath.model.settlement import SettleStatus, Succeeded
from offpath.store.memory.effects import PlannedEffects
from offpath.store.memory.mailbox import Mailbox
from offpath.store.memory.message_lanes import MessageLane
from offpath.store.memory.tables import Tables
from offpath.store.protocol import MOST_ON_A_PAGE
from offpath.store.refusals import no_position
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.message_filter import tests_of
from offpath.store.rows.messages import (
    MemoryMessage,
    handed_out,
    leased,
    record,
    revived,
    settled,
)

_PENDING = MessageState.PENDING
_LOST = SettleStatus.LEASE_LOST


# -- lease ---------------------------------------------------------------------------------------


class _Picking:
    """One stream's messages, picked one after the other until its room is used up."""

    def __init__(self, lane: MessageLane, room: int, rows: dict[str, MemoryMessage]) -> None:
        self.lane = lane
        self.taken: list[str] = []
        self._room = room
        self._rows = rows
        self._passed: dict[str, int] = {}  # key -> how many of it were taken
        self._standing: dict[str, str | None] = {}  # key -> who stands in the heap for it

    def pick(self, now: datetime, *, ordered: bool) -> bool:
        """Take the next; False when nothing more is due, or there is no more room."""
        if len(self.taken) == self._room:
            return False
        first = self.lane.take(now)
        if first is None:
            return False
        self.taken.append(first)
        key = self._rows[first].key
        if ordered and key is not None:
            steps = self._passed[key] = self._passed.get(key, 0) + 1
            self._standing[key] = self.lane.follow(first, steps, now)
        return True

    def more(self, now: datetime) -> bool:
        """True if something was left that is due."""
        due_at = self.lane.due_at()
        return due_at is not None and due_at <= now

    def finish(self, mailbox: Mailbox, holder: str, until: datetime) -> Iterator[MemoryMessage]:
        """Hand out what was picked."""
        # Stand-ins leave the heap first: filing moves only the first of a key, so they would stay
        # there, due.
        for key, stood_in in self._standing.items():
            self.lane.restore(key, stood_in)
        for each in self.taken:
            row = handed_out(mailbox.rows[each], holder, until)
            mailbox.file(row)
            yield row


def lease(tables: Tables, now: datetime, request: MessageRequest) -> LeasedMessages:
    """Hand out what is due, to each stream its turn; who has waited longest begins."""
    mailbox = tables.mailbox
    until = later(now, request.lease_seconds)
    picking = _pickings(mailbox, request)
    turns = deque(sorted(picking, key=lambda each: each[0].lane.due_at() or now))
    left = request.limit
    while turns and left > 0:
        one, ordered = turns.popleft()
        if one.pick(now, ordered=ordered):
            left -= 1
            # To the end of the line: streams take turns, so a full one does not starve the others.
            turns.append((one, ordered))
    more = any(one.more(now) for one, _ in picking)
    rows = [row for one, _ in picking for row in one.finish(mailbox, request.holder, until)]
    due = min((at for one, _ in picking if (at := one.lane.due_at())), default=None)
    return LeasedMessages(
        messages=tuple(map(leased, rows)),
        now=now,
        more=more,
        due_in=None if due is None else max((due - now).total_seconds(), 0.0),
    )


def _pickings(mailbox: Mailbox, request: MessageRequest) -> list[tuple[_Picking, bool]]:
    """The streams that take part: each once, if it has room and something in it."""
    found: list[tuple[_Picking, bool]] = []
    for room in {each.stream: each for each in request.streams}.values():
        lane = mailbox.lanes.get(request.box, room.stream)
        if lane is not None and room.limit > 0:
            lane.arrange(ordered=room.ordered)
            found.append((_Picking(lane, room.limit, mailbox.rows), room.ordered))
    return found


# -- settle --------------------------------------------------------------------------------------


def settle(
    tables: Tables, now: datetime, settlements: Sequence[MessageSettlement]
) -> list[MessageSettled]:
    """Settle each; one that cannot be holds back none of the others."""
    return [_settle_one(tables, now, each) for each in settlements]


def _settle_one(tables: Tables, now: datetime, settlement: MessageSettlement) -> MessageSettled:
    message = settlement.message
    held = tables.mailbox.rows.get(message.id)
    if held is None or held.state is not _PENDING or held.holder != message.holder:
        return MessageSettled(id=message.id, status=_LOST)
    try:
        # All is decided before anything is filed: one that is refused stays as it was, and its
        # batch goes on.
        row = settled(held, settlement.outcome, now, maybe_later(now, settlement.keep))
        writing = None
        if settlement.effects and isinstance(settlement.outcome, Succeeded):
            writing = PlannedEffects(tables, now)
            writing.add(settlement.effects)
    except (Conflict, StoreRejected, LedgerError) as error:
        return MessageSettled(id=message.id, status=SettleStatus.REFUSED, error=error)
    tables.mailbox.file(row)
    enqueued = () if writing is None else tuple(writing.carry_out())
    return MessageSettled(
        id=message.id,
        status=SettleStatus.APPLIED,
        state=row.state,
        enqueued=enqueued,
    )


# -- an operator's calls ---------------------------------------------------------------------------


def revive(tables: Tables, now: datetime, ids: Sequence[str]) -> list[str]:
    """Put ended messages back as fresh."""
    ended = _ended(tables.mailbox, ids)
    for row in ended:
        tables.mailbox.file(revived(row, now))
    return [row.id for row in ended]


def delete(tables: Tables, ids: Sequence[str]) -> list[str]:
    """Remove ended messages."""
    ended = _ended(tables.mailbox, ids)
    for row in ended:
        tables.mailbox.drop(row)
    return [row.id for row in ended]


def _ended(mailbox: Mailbox, ids: Iterable[str]) -> list[MemoryMessage]:
    """The messages among these that have ended, each once, in the order of their ids."""
    found = (mailbox.rows.get(each) for each in sorted(set(ids)))
    return [row for row in found if row is not None and row.state is not _PENDING]


def prune(tables: Tables, now: datetime, limit: int) -> int:
    """Remove ended messages whose time has come."""
    mailbox, removed = tables.mailbox, 0
    while removed < limit and (first := mailbox.expiring.first()) and first[0] <= now:
        mailbox.drop(mailbox.rows[first[1]])
        removed += 1
    return removed


# -- reading -------------------------------------------------------------------------------------


def find(
    tables: Tables,
    now: datetime,
    where: MessageFilter,
    *,
    limit: int,
    after: str | None,
    newest: bool,
) -> MessagePage:
    """One page of those that match, by position."""
    beyond = _position(after)
    if limit <= 0:
        return MessagePage(items=())
    rows = _candidates(tables.mailbox, where, newest=newest)
    if beyond is not None:
        rows = (row for row in rows if (row.position < beyond if newest else row.position > beyond))
    tests = tests_of(where)
    found = list(islice((row for row in rows if all(test(row) for test in tests)), limit + 1))
    items = tuple(record(row, now) for row in found[:limit])
    return MessagePage(items=items, next=str(items[-1].position) if len(found) > limit else None)


def look(
    tables: Tables,
    now: datetime,
    where: MessageFilter,
    *,
    limit: int,
    after: str | None,
    most: int,
    newest: bool,
) -> MessageLook:
    """One page of those that match among the next rows, and how far it came."""
    beyond = _position(after)
    if limit <= 0 or most <= 0:
        return MessageLook(items=(), next=after)
    size = min(limit, MOST_ON_A_PAGE)
    rows = _candidates(tables.mailbox, where, newest=newest)
    if where.states == (MessageState.DEAD,):
        rows = (row for row in rows if row.state is MessageState.DEAD)
    if beyond is not None:
        rows = (row for row in rows if (row.position < beyond if newest else row.position > beyond))
    looked, tests = list(islice(rows, most)), tests_of(where)
    found = list(islice((row for row in looked if all(test(row) for test in tests)), size + 1))
    items = tuple(replace(record(row, now), payload="", headers="{}") for row in found[:size])
    last = found[size - 1] if len(found) > size else looked[-1] if len(looked) == most else None
    if last is None:
        return MessageLook(items=items, next=None, exhausted=True)
    return MessageLook(items=items, next=str(last.position), reached_at=last.created_at)


def _position(after: str | None) -> int | None:
    try:
        return None if after is None else int(after)
    except ValueError:
        raise no_position() from None


def _candidates(mailbox: Mailbox, where: MessageFilter, *, newest: bool) -> Iterator[MemoryMessage]:
    if not where.ids:
        rows = mailbox.rows.values()
        return reversed(rows) if newest else iter(rows)
    found = [row for each in set(where.ids) if (row := mailbox.rows.get(each))]
    return iter(sorted(found, key=lambda row: row.position, reverse=newest))


def backlog(tables: Tables, now: datetime, limit: int) -> list[MessageBacklog]:
    """The number that waits in each stream."""
    mailbox = tables.mailbox
    places: set[tuple[Box, str]] = {place for place, _ in mailbox.lanes.items()}
    found = (
        _backlog_of(mailbox, box, stream, now, limit) for box, stream in places | set(mailbox.dead)
    )
    return sorted(found, key=lambda each: (each.box.value, each.stream))


def _backlog_of(
    mailbox: Mailbox, box: Box, stream: str, now: datetime, limit: int
) -> MessageBacklog:
    lane = mailbox.lanes.get(box, stream) or ()
    pending = [mailbox.rows[each] for each in lane]
    # A held message was due: its ``due_at`` is the end of its lease.
    due = [row.created_at for row in pending if row.due_at <= now or row.holder is not None]
    failed = [row.created_at for row in pending if row.attempt > 1]
    dead = mailbox.dead.get((box, stream), ())
    died = (mailbox.rows[each].finished_at for each in dead)
    return MessageBacklog(
        box=box,
        stream=stream,
        due=min(len(due), limit),
        dead=min(len(dead), limit),
        oldest_due_at=min((*due, *failed), default=None),
        oldest_dead_at=min((at for at in died if at is not None), default=None),
    )
