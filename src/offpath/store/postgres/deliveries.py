"""Messages: handed out, and ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final, assert_never

import msgspec
from msgspec import Struct

from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.job import Failure
from offpath.model.message import (
    Box,
    LeasedMessage,
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
    StreamRoom,
)
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded
from offpath.store.postgres import groups
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.steps import NEVER, moment, to_json
from offpath.store.programs import gates
from offpath.store.programs.answers import OutlookRow
from offpath.store.programs.conclusion import told
from offpath.store.programs.deliveries import handed
from offpath.store.programs.dialect import Send, Steps, ask, embed
from offpath.store.programs.event_answers import DueStreamRow
from offpath.store.programs.instants import instant
from offpath.store.sql import Catalogue, Query, Row

_STATES: Final = {
    Succeeded: MessageState.DONE,
    Retry: MessageState.PENDING,
    Dead: MessageState.DEAD,
    Released: MessageState.PENDING,
}


class Handed(Struct, frozen=True):
    """The answer to a request, and whether streams were asked whose longest due are all behind
    others, so that what may go could not be seen.
    """

    answer: LeasedMessages
    hidden: bool


class _Room(Struct, frozen=True):
    stream: str
    room: int
    walk: bool = False


# Without the collector: a batch makes hundreds of these, and none can be part of a circle.
class _Done(Struct, frozen=True, omit_defaults=True, gc=False):
    """One success as ``done_messages`` takes it."""

    n: int
    id: str
    holder: str
    keep: float | None = None


class _DeliveryEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One settlement as ``settle_messages`` takes it. ``spent``: whether the attempt counts;
    ``returned``: whether it is as if it had not been handed out.
    """

    n: int
    id: str
    holder: str
    state: MessageState
    spent: int
    returned: int
    delay: float | None = None
    keep: float | None = None
    reason: str | None = None
    failure: Failure | None = None


# -- handing out -----------------------------------------------------------------------------


def lease_steps(
    request: MessageRequest, now: datetime | None, *, walk: bool = False, sql: Catalogue
) -> Steps[Handed]:
    """Hand out due messages; ``walk`` looks behind those that wait, in ordered streams."""
    rooms = {one.stream: one for one in request.streams if min(one.limit, request.limit) > 0}
    ordered = [name for name, one in rooms.items() if one.ordered]
    shares = {name: min(one.limit, request.limit) for name, one in rooms.items()}
    # In a statement of its own: one that has waited still sees other tables as of before its wait,
    # and would hand out what the last holder of the stream has committed.
    locks = (_locks(request.box, ordered, sql),) if ordered else ()
    # Only where the streams want more than there is room for is it worth a look at what is due.
    if sum(shares.values()) > request.limit:
        counted = sql["count_due"](
            now=moment(now), box=request.box, streams=_rooms(shares, list(shares))
        )
        *_, dues = yield Send((*locks, counted))
        # The turns are taken already, and hold until the commit.
        locks, shares = (), share_out(dues, request.limit)
    free = [name for name in shares if not rooms[name].ordered]
    queries: list[Query] = []
    if free or not ordered:
        streams = _rooms(shares, free)
        queries.append(sql["lease_messages"](**_given(request, now), streams=streams))
    if ordered:
        streams = _rooms(shares, ordered, walk=walk)
        queries.append(sql["lease_ordered"](**_given(request, now), streams=streams))
    found = yield Send((*locks, *queries), last=True)
    return _handed(request, found[len(locks) :], frozenset(ordered))


def rest_of(request: MessageRequest, answer: LeasedMessages) -> MessageRequest:
    """The request that is left of the ordered streams after this answer."""
    got = Counter(one.stream for one in answer.messages)
    return msgspec.structs.replace(
        request,
        limit=request.limit - len(answer.messages),
        streams=tuple(
            StreamRoom(stream=one.stream, limit=one.limit - got[one.stream], ordered=True)
            for one in request.streams
            if one.ordered
        ),
    )


def both(first: LeasedMessages, second: LeasedMessages) -> LeasedMessages:
    """Two answers to one request as one."""
    waits = [one.due_in for one in (first, second) if one.due_in is not None]
    return LeasedMessages(
        messages=first.messages + second.messages,
        now=second.now,
        more=first.more or second.more,
        due_in=min(waits, default=None),
    )


def share_out(dues: Sequence[Row], limit: int) -> dict[str, int]:
    """The share of each stream, of ``(stream, due, since)``: as even as its due messages allow;
    what cannot be shared evenly goes to the streams that have waited longest.
    """
    lanes = [DueStreamRow._make(row) for row in dues]
    shares = dict.fromkeys((lane.stream for lane in lanes), 0)
    lanes.sort(key=lambda lane: (lane.oldest, lane.stream))
    wanting = [(lane.stream, lane.due) for lane in lanes]
    while limit > 0 and (wanting := [one for one in wanting if shares[one[0]] < one[1]]):
        # At least one: with less room than streams, shares of nothing would never use it up.
        each = max(limit // len(wanting), 1)
        for stream, due in wanting:
            # Never more than what is due: room that one stream does not need goes to the others.
            some = min(each, due - shares[stream], limit)
            shares[stream] += some
            limit -= some
    return shares


def _locks(box: Box, streams: Sequence[str], sql: Catalogue) -> Query:
    return sql["lock_streams"](box=box, streams=to_json([{"stream": name} for name in streams]))


def _rooms(shares: Mapping[str, int], streams: Sequence[str], *, walk: bool = False) -> str:
    return to_json([_Room(name, shares[name], walk) for name in streams])


def _given(request: MessageRequest, now: datetime | None) -> dict[str, Any]:
    return {
        "now": moment(now),
        "box": request.box,
        "holder": request.holder,
        "lease_seconds": request.lease_seconds,
    }


def _handed(
    request: MessageRequest, answers: Sequence[Sequence[Row]], ordered: frozenset[str]
) -> Handed:
    messages: list[LeasedMessage] = []
    waits: list[float] = []
    more = hidden = False
    now = 0
    for rows in answers:
        outlook = OutlookRow._make(rows[0][: len(OutlookRow._fields)])
        now = outlook.now
        given = [message for _, _, _, _, *message in rows if message[0] is not None]
        some = handed(request, given, ordered)
        more = more or outlook.due > len(some)
        hidden = hidden or outlook.hidden > 0
        messages += some
        if outlook.due_at is not None and outlook.due_at != NEVER:
            waits.append(max(outlook.due_at - now, 0) / 1_000_000)
    # What is handed out now is due again when its lease ends, should its holder die.
    if messages:
        waits.append(request.lease_seconds)
    answer = LeasedMessages(
        messages=tuple(messages),
        now=instant(now),
        more=more,
        due_in=0.0 if more else min(waits, default=None),
    )
    return Handed(answer, hidden)


# -- ending ----------------------------------------------------------------------------------


def settle_steps(
    settlements: Sequence[MessageSettlement], now: datetime | None, *, sql: Catalogue
) -> Steps[list[MessageSettled]]:
    """End attempts; messages first, by id, then what their effects write."""
    query = _ends(settlements, now, sql)
    # With effects the COMMIT has to wait for the statements that write them.
    plain = not any(one.effects for one in settlements)
    applied = {n for (n,) in (yield from ask(query, last=plain))}
    # In the order of the batch, which new messages and events keep. A lost holder writes nothing.
    effects = {n: carried for n in sorted(applied) if (carried := _carried(settlements[n]))}
    enqueued, work = yield from embed(carry_out(effects, now, sql=sql))
    left = yield from groups.lasting(work, now, sql=sql)
    born = iter(with_deaths([*chain(*enqueued.values())], told(gates.dead(work.moved), left)))
    enqueued = {n: tuple(islice(born, len(some))) for n, some in enqueued.items()}
    return [
        MessageSettled(
            id=one.message.id,
            status=SettleStatus.APPLIED,
            state=_STATES[type(one.outcome)],
            enqueued=enqueued.get(n, ()),
        )
        if n in applied
        else MessageSettled(id=one.message.id, status=SettleStatus.LEASE_LOST)
        for n, one in enumerate(settlements)
    ]


def _ends(settlements: Sequence[MessageSettlement], now: datetime | None, sql: Catalogue) -> Query:
    if all(isinstance(one.outcome, Succeeded) for one in settlements):
        done = [
            _Done(n, one.message.id, one.message.holder, one.keep)
            for n, one in enumerate(settlements)
        ]
        # As below: the order in which rows of messages are locked.
        done.sort(key=_by_id)
        return sql["done_messages"](now=moment(now), batch=to_json(done))
    # By id, as all that lock messages: late ends of a lost holder may name the same ones.
    ends = sorted((_end(n, one) for n, one in enumerate(settlements)), key=_by_id)
    return sql["settle_messages"](now=moment(now), batch=to_json(ends))


def refused(one: MessageSettlement, error: Exception) -> MessageSettled:
    """The answer to a settlement that the store cannot take."""
    return MessageSettled(id=one.message.id, status=SettleStatus.REFUSED, error=error)


def _carried(one: MessageSettlement) -> Effects | None:
    # An attempt that comes again would write its effects a second time.
    return one.effects if one.effects and isinstance(one.outcome, Succeeded) else None


def _by_id(end: _Done | _DeliveryEnd) -> str:
    return end.id


def _end(n: int, one: MessageSettlement) -> _DeliveryEnd:
    return _DeliveryEnd(
        n=n,
        id=one.message.id,
        holder=one.message.holder,
        keep=one.keep,
        **_outcome(one.outcome),
    )


def _outcome(outcome: Succeeded | Retry | Dead | Released) -> dict[str, Any]:
    match outcome:
        case Succeeded():
            return {"state": MessageState.DONE, "spent": 0, "returned": 0}
        case Retry(delay=delay, failure=failure):
            return {
                "state": MessageState.PENDING,
                "spent": 1,
                "returned": 0,
                "delay": delay,
                "failure": failure,
            }
        case Dead(reason=reason, failure=failure):
            return {
                "state": MessageState.DEAD,
                "spent": 0,
                "returned": 0,
                "reason": reason,
                "failure": failure,
            }
        case Released():
            return {"state": MessageState.PENDING, "spent": 0, "returned": 1}
        case _ as never:
            assert_never(never)
