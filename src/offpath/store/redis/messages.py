"""Messages: lease, settlement, what operators do with them, and looking at them."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from offpath.errors import Conflict, StoreError
from offpath.model.job import Enqueued
from offpath.model.lease import worker_of
from offpath.model.message import (
    Box,
    LeasedMessages,
    MessageBacklog,
    MessageFilter,
    MessagePage,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
    StreamRoom,
)
from offpath.model.settlement import SettleStatus, Succeeded
from offpath.store.hints import Hint
from offpath.store.partial import refuse_absent
from offpath.store.redis import enqueue, keys
from offpath.store.redis.capabilities import CAPABILITIES
from offpath.store.redis.job_rows import micros, moment
from offpath.store.redis.message_rows import (
    FIELDS,
    StoredMessage,
    line_key,
    member_of,
    packed,
    place_of,
    row_of,
)
from offpath.store.redis.unit import Unit
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
# As for jobs: a server does nothing else while it answers.
_AT_ONCE: Final = 200
# Of a stream with more of them, the others are due again when their leases end.
_MOST_FREED: Final = 1_000
# A member begins with its position, so that equal times are in the order of writing.
_POSITION_DIGITS: Final = 16


async def rows_of(
    unit: Unit, ids: Iterable[str], *, checked: bool = True
) -> dict[str, StoredMessage]:
    """The messages of these ids that exist; ``checked``: a write depends on them."""
    wanted = list(dict.fromkeys(ids))
    found = await unit.read(*(["HMGET", unit.key(keys.MESSAGE + one), *FIELDS] for one in wanted))
    rows = dict[str, StoredMessage]()
    for one, fields in zip(wanted, found, strict=True):
        if checked:
            unit.check(keys.MESSAGE + one, "d", None if fields[0] is None else fields[0].decode())
        if fields[0] is not None:
            rows[one] = row_of(one, fields)
    return rows


def file(unit: Unit, before: MemoryMessage, after: MemoryMessage) -> None:
    """Put a message in the place of the one before."""
    place, member = place_of(after.box, after.stream), member_of(after)
    unit.run("HSET", keys.MESSAGE + after.id, "d", packed(after))
    if after.state is _PENDING:
        unit.call("@wait", place, line_key(after.key), member, micros(after.due_at))
        if before.state is not _PENDING:
            _unend(unit, before)
            unit.tell(Hint.MESSAGES)
    else:
        unit.call("@leave", place, line_key(after.key), member)
        if after.expires_at is not None:
            unit.run("ZADD", keys.EXPIRING_MESSAGES, micros(after.expires_at), after.id)
        if after.state is MessageState.DEAD and after.finished_at is not None:
            unit.run("ZADD", keys.DEAD_MESSAGES + place, micros(after.finished_at), after.id)
    # Held or failed before: the only ones that a death, or a look at the backlog, has to read.
    restless = after.state is _PENDING and (after.holder is not None or after.attempt > 1)
    command = ("ZADD", micros(after.created_at)) if restless else ("ZREM",)
    unit.run(command[0], keys.RESTLESS + place, *command[1:], after.id)


def _unend(unit: Unit, row: MemoryMessage) -> None:
    unit.run("ZREM", keys.EXPIRING_MESSAGES, row.id)
    unit.run("ZREM", keys.DEAD_MESSAGES + place_of(row.box, row.stream), row.id)


# -- lease ---------------------------------------------------------------------------------------


class _StreamPicking:
    """The due messages of one stream, picked one after the other until its room is used up."""

    def __init__(self, unit: Unit, box: Box, room: StreamRoom) -> None:
        self.place = place_of(box, room.stream)
        self.ordered = room.ordered
        self.taken: list[str] = []
        self._room = room.limit
        self._unit = unit
        self._heap: list[tuple[float, str]] = []
        self._lines: dict[str, deque[tuple[float, str]]] = {}
        self._key_of: dict[str, str] = {}
        self.due: float | None = None
        """The time when the first one was due, as the lease began."""

    async def look(self) -> None:
        """Read what is due, and of an ordered stream what stands behind the first of each key."""
        unit = self._unit
        index = unit.key((keys.HEADS if self.ordered else keys.PENDING) + self.place)
        due, first = await unit.read(
            ["ZRANGEBYSCORE", index, "-inf", micros(unit.now), "WITHSCORES", "LIMIT", 0,
             self._room + 1],
            ["ZRANGE", index, 0, 0, "WITHSCORES"],
        )  # fmt: skip
        self._heap = [(score, member) for member, score in pairs(due)]
        heapq.heapify(self._heap)
        self.due = next((score for _, score in pairs(first)), None)
        if self.ordered:
            await self._look_behind([member for _, member in self._heap])

    async def _look_behind(self, heads: Sequence[str]) -> None:
        unit = self._unit
        rows = await rows_of(unit, (_id_of(each) for each in heads), checked=False)
        for head in heads:
            row = rows.get(_id_of(head))
            if row is None or row.message.key is None:
                continue
            line = unit.key(keys.line(self.place, line_key(row.message.key)))
            (members,) = await unit.read(["ZRANGE", line, 1, self._room])
            names = [each.decode() for each in members]
            pending = unit.key(keys.PENDING + self.place)
            scores = await unit.read(*(["ZSCORE", pending, each] for each in names))
            found = zip(scores, names, strict=True)
            self._lines[row.message.key] = deque(
                (float(score), name) for score, name in found if score is not None
            )
            self._key_of[head] = row.message.key

    def pick(self) -> bool:
        """Take the next; False when nothing more is due, or there is no more room."""
        if len(self.taken) >= self._room or not self.more():
            return False
        _, member = heapq.heappop(self._heap)
        self.taken.append(_id_of(member))
        key = self._key_of.get(member)
        if key is not None and self._lines[key]:
            score, follower = self._lines[key].popleft()
            self._key_of[follower] = key
            if score <= micros(self._unit.now):
                heapq.heappush(self._heap, (score, follower))
        return True

    def check(self, rows: Mapping[str, StoredMessage]) -> None:
        """Leave out what somebody else has taken since it was looked for, and the rest of its key.

        What is handed out of a key begins with the first of its line, or nothing is written.
        """
        lost, begun = set[str | None](), set[str]()
        for each in tuple(self.taken):
            row = rows.get(each)
            message = None if row is None else row.message
            key = None if message is None else message.key
            free = message is not None and _is_free(message, self._unit.now)
            if not free or (self.ordered and key is not None and key in lost):
                self.taken.remove(each)
                # Those behind it would overtake it.
                lost.add(key)
            elif self.ordered and message is not None and key is not None and key not in begun:
                begun.add(key)
                line = keys.line(self.place, line_key(key))
                self._unit.check_first(line, member_of(message))

    def more(self) -> bool:
        """True if something is left that is due."""
        return bool(self._heap)


def _is_free(message: MemoryMessage, now: datetime) -> bool:
    return message.state is _PENDING and message.due_at <= now


def pairs(flat: Sequence[Any]) -> list[tuple[str, float]]:
    """Members with their scores."""
    names = iter(flat)
    return [(member.decode(), float(score)) for member, score in zip(names, names, strict=True)]


def _id_of(member: str) -> str:
    return member[_POSITION_DIGITS:]


async def lease(unit: Unit, request: MessageRequest) -> LeasedMessages:
    """Hand out what is due, to each stream its turn; who has waited longest begins."""
    until = later(unit.now, request.lease_seconds)
    rooms = {each.stream: each for each in request.streams if each.limit > 0}
    picking = [_StreamPicking(unit, request.box, each) for each in rooms.values()]
    for one in picking:
        await one.look()
    turns = deque(sorted(picking, key=lambda one: one.due or float("inf")))
    left = request.limit
    while turns and left > 0:
        one = turns.popleft()
        if one.pick():
            left -= 1
            turns.append(one)
    taken = [each for one in picking for each in one.taken]
    rows = await rows_of(unit, taken)
    for one in picking:
        one.check(rows)
    handed = [
        handed_out(rows[each].message, request.holder, until)
        for one in picking
        for each in one.taken
    ]
    for after in handed:
        file(unit, rows[after.id].message, after)
    return LeasedMessages(
        messages=tuple(leased(each) for each in handed),
        now=unit.now,
        more=any(one.more() for one in picking),
    )


async def due_in(unit: Unit, request: MessageRequest) -> float | None:
    """Seconds until the next message of these streams is due, or a lease of one ends."""
    commands = []
    for each in request.streams:
        if each.limit > 0:
            index = keys.HEADS if each.ordered else keys.PENDING
            place = place_of(request.box, each.stream)
            commands.append(["ZRANGE", unit.key(index + place), 0, 0, "WITHSCORES"])
    found = await unit.read(*commands)
    scores = [score for one in found for _, score in pairs(one)]
    if not scores:
        return None
    return max((moment(str(int(min(scores)))) - unit.now).total_seconds(), 0.0)


async def free(unit: Unit, workers: Collection[str]) -> None:
    """End the leases of messages that these workers hold."""
    (places,) = await unit.read(["SMEMBERS", unit.key(keys.STREAMS)])
    found = await unit.read(
        *(["ZRANGE", unit.key(keys.RESTLESS + one.decode()), 0, _MOST_FREED - 1] for one in places)
    )
    # A look without comparison first, or every message that anybody moves meanwhile would have it
    # begin again. Those that are changed are read again, and compared.
    held = await rows_of(unit, (one.decode() for each in found for one in each), checked=False)
    names = [name for name, row in held.items() if worker_of(row.message.holder or "") in workers]
    for row in (await rows_of(unit, names)).values():
        if row.message.state is _PENDING and row.message.due_at > unit.now:
            file(unit, row.message, replace(row.message, due_at=unit.now))
            unit.tell(Hint.MESSAGES)


# -- settle --------------------------------------------------------------------------------------


async def settle(unit: Unit, settlements: Sequence[MessageSettlement]) -> list[MessageSettled]:
    """Settle each; one that cannot be holds back none of the others."""
    rows = await rows_of(unit, (each.message.id for each in settlements))
    wanted = [each.effects for each in settlements if each.effects]
    if wanted:
        await enqueue.load(unit, wanted)
    answers = list[MessageSettled]()
    for each in settlements:
        answer, after = _settle_one(unit, each, rows.get(each.message.id))
        answers.append(answer)
        if after is not None:
            # A second settlement of the same message in this batch must find it settled.
            rows[after.id] = StoredMessage(after)
    return answers


def _settle_one(
    unit: Unit, settlement: MessageSettlement, row: StoredMessage | None
) -> tuple[MessageSettled, MemoryMessage | None]:
    message = settlement.message
    held = None if row is None else row.message
    # The fence: after the lease was over somebody else may have it, and its end is theirs.
    if held is None or held.state is not _PENDING or held.holder != message.holder:
        return MessageSettled(id=message.id, status=SettleStatus.LEASE_LOST), None
    point = unit.savepoint()
    try:
        keep = maybe_later(unit.now, settlement.keep)
        after = settled(held, settlement.outcome, unit.now, keep)
        enqueued: tuple[Enqueued, ...] = ()
        if settlement.effects and isinstance(settlement.outcome, Succeeded):
            refuse_absent(CAPABILITIES, settlement.effects)
            enqueued = tuple(enqueue.add(unit, settlement.effects))
    except (Conflict, StoreError) as error:
        unit.restore(point)
        return MessageSettled(id=message.id, status=SettleStatus.REFUSED, error=error), None
    file(unit, held, after)
    if after.state is _PENDING:
        unit.tell(Hint.MESSAGES)
    done = MessageSettled(
        id=message.id, status=SettleStatus.APPLIED, state=after.state, enqueued=enqueued
    )
    return done, after


# -- an operator's calls ---------------------------------------------------------------------------


async def _ended(unit: Unit, ids: Sequence[str]) -> list[MemoryMessage]:
    """The messages among these that have ended, each once, in the order of their ids."""
    rows = await rows_of(unit, sorted(set(ids)))
    return [row.message for row in rows.values() if row.message.state is not _PENDING]


async def revive(unit: Unit, ids: Sequence[str]) -> list[str]:
    """Put ended messages back as fresh."""
    ended = await _ended(unit, ids)
    for row in ended:
        file(unit, row, revived(row, unit.now))
    return [row.id for row in ended]


async def delete(unit: Unit, ids: Sequence[str]) -> list[str]:
    """Remove ended messages."""
    ended = await _ended(unit, ids)
    for row in ended:
        drop(unit, row)
    return [row.id for row in ended]


def drop(unit: Unit, row: MemoryMessage) -> None:
    """Remove an ended message."""
    _unend(unit, row)
    unit.run("DEL", keys.MESSAGE + row.id)
    unit.run("ZREM", keys.MESSAGES, row.id)
    unit.run("ZREM", keys.MESSAGE_IDS, row.id)
    # From now on the same key is a new message.
    if row.box is Box.IN and row.key is not None:
        unit.run("HDEL", keys.INBOX_KEYS, keys.pair(row.stream, row.key))


async def prune(unit: Unit, limit: int) -> int:
    """Remove ended messages whose time has come."""
    (found,) = await unit.read(
        ["ZRANGEBYSCORE", unit.key(keys.EXPIRING_MESSAGES), "-inf", micros(unit.now),
         "LIMIT", 0, limit]
    )  # fmt: skip
    return len(await delete(unit, [each.decode() for each in found]))


# -- reading -------------------------------------------------------------------------------------


async def find(
    unit: Unit,
    where: MessageFilter,
    *,
    limit: int = 100,
    after: str | None = None,
    newest: bool = True,
) -> MessagePage:
    """One page of those that match, by position."""
    beyond = _position(after)
    if limit <= 0:
        return MessagePage(items=())
    tests, found = tests_of(where), list[MemoryMessage]()
    while len(found) <= limit:
        ids = await _next_ids(unit, where, beyond, newest=newest)
        rows = await rows_of(unit, ids, checked=False)
        messages = sorted((row.message for row in rows.values()), key=_by_position, reverse=newest)
        messages = [each for each in messages if _is_beyond(each.position, beyond, newest=newest)]
        found += [each for each in messages if all(test(each) for test in tests)]
        if where.ids or len(ids) < _AT_ONCE or not messages:
            break
        # By the last row that was looked at, not the last that fits: or it would look at the same
        # again.
        beyond = messages[-1].position
    items = tuple(record(row, unit.now) for row in found[:limit])
    return MessagePage(items=items, next=str(items[-1].position) if len(found) > limit else None)


def _by_position(message: MemoryMessage) -> int:
    return message.position


def _is_beyond(position: int, beyond: int | None, *, newest: bool) -> bool:
    if beyond is None:
        return True
    return position < beyond if newest else position > beyond


def _position(after: str | None) -> int | None:
    try:
        return None if after is None else int(after)
    except ValueError:
        raise no_position() from None


async def _next_ids(
    unit: Unit, where: MessageFilter, beyond: int | None, *, newest: bool
) -> list[str]:
    if where.ids:
        return sorted(set(where.ids))
    start = "-inf" if beyond is None else f"({beyond}"
    bounds = ["+inf" if beyond is None else start, "-inf"] if newest else [start, "+inf"]
    command = "ZREVRANGEBYSCORE" if newest else "ZRANGEBYSCORE"
    (found,) = await unit.read([command, unit.key(keys.MESSAGES), *bounds, "LIMIT", 0, _AT_ONCE])
    return [each.decode() for each in found]


async def backlog(unit: Unit, *, limit: int = 1000) -> list[MessageBacklog]:
    """The messages that wait, by stream."""
    (places,) = await unit.read(["SMEMBERS", unit.key(keys.STREAMS)])
    found = [await _backlog_of(unit, each.decode(), limit) for each in places]
    there = [each for each in found if each is not None]
    return sorted(there, key=lambda each: (each.box.value, each.stream))


async def _backlog_of(unit: Unit, place: str, limit: int) -> MessageBacklog | None:
    now = micros(unit.now)
    pending, due, dead, restless, first_dead = await unit.read(
        ["ZCARD", unit.key(keys.PENDING + place)],
        ["ZRANGEBYSCORE", unit.key(keys.PENDING + place), "-inf", now, "LIMIT", 0, limit],
        ["ZCARD", unit.key(keys.DEAD_MESSAGES + place)],
        ["ZRANGE", unit.key(keys.RESTLESS + place), 0, limit - 1],
        ["ZRANGE", unit.key(keys.DEAD_MESSAGES + place), 0, 0, "WITHSCORES"],
    )
    if not pending + dead:
        return None
    ids = [_id_of(each.decode()) for each in due]
    rows = await rows_of(unit, [*ids, *(each.decode() for each in restless)], checked=False)
    messages = [row.message for row in rows.values()]
    waiting = [each for each in messages if each.due_at <= unit.now or each.holder is not None]
    box, _, stream = place.partition(":")
    return MessageBacklog(
        box=Box(box),
        stream=stream,
        due=min(len(waiting), limit),
        dead=min(dead, limit),
        oldest_due_at=min((each.created_at for each in messages), default=None),
        oldest_dead_at=_first(first_dead),
    )


def _first(found: Sequence[Any]) -> datetime | None:
    return next((moment(str(int(score))) for _, score in pairs(found)), None)
