"""Messages: handed out, ended, and pruned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from offpath.model.effects import Effects
from offpath.model.job import Enqueued, Failure
from offpath.model.message import (
    LeasedMessage,
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
    StreamRoom,
)
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded
from offpath.store.programs.answers import LaneRow
from offpath.store.programs.deliveries import handed
from offpath.store.programs.instants import instant
from offpath.store.refusals import refuse_contributions
from offpath.store.sql import Row
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.isolation import isolating
from offpath.store.sqlite.parameters import batch, failure_text, later
from offpath.store.sqlite.session import SQL, Session

_LAST: Final = 2**63 - 1
_failure: Final = msgspec.json.Decoder(Failure).decode
_STATES: Final = {state.value: state for state in MessageState}
_PENDING: Final = MessageState.PENDING.value


# -- lease -----------------------------------------------------------------------------------------


class _Lane(NamedTuple):
    """A stream with room, and when its first message is due."""

    room: StreamRoom
    leading: int | None
    behind: int | None

    @property
    def due_at(self) -> int | None:
        """The time when it can next give a message, if it has any."""
        due = [self.leading] if self.room.ordered else [self.leading, self.behind]
        return min((at for at in due if at is not None), default=None)


def _lanes(session: Session, request: MessageRequest) -> list[_Lane]:
    rooms = {room.stream: room for room in request.streams if room.limit > 0}
    query = SQL["due_streams"](box=request.box.value, streams=batch(list(rooms)))
    lanes = map(LaneRow._make, session.run(query))
    return [_Lane(rooms[lane.stream], lane.leading, lane.behind) for lane in lanes]


def _left(lanes: Sequence[_Lane], now: int) -> tuple[bool, float | None]:
    """True if something is due; and the seconds for which nothing is."""
    first = min((lane.due_at for lane in lanes if lane.due_at is not None), default=None)
    if first is None:
        return False, None
    return first <= now, max(first - now, 0) / 1_000_000


def nothing_to_lease(session: Session, now: int, request: MessageRequest) -> LeasedMessages | None:
    """The answer when nothing is due, without the write lock; otherwise None."""
    due, due_in = _left(_lanes(session, request), now)
    if due and request.limit > 0:
        return None
    return LeasedMessages(messages=(), now=instant(now), more=due, due_in=due_in)


def lease(session: Session, now: int, request: MessageRequest) -> LeasedMessages:
    """Hand out what is due: to each stream its share, and what is left to those that have more."""
    lanes = [(at, lane) for lane in _lanes(session, request) if (at := lane.due_at) is not None]
    # Who has waited longest begins: what cannot be shared evenly goes to those.
    due = [lane for at, lane in sorted(lanes, key=lambda each: each[0]) if at <= now]
    until = later(now, request.lease_seconds)
    left = request.limit
    taken: list[LeasedMessage] = []
    room = {lane.room.stream: lane.room.limit for lane in due}
    while due and left > 0:
        # Even shares first. What a stream does not use is shared among those that have more.
        share, hungry = max(left // len(due), 1), []
        for lane in due:
            stream = lane.room.stream
            limit = min(share, room[stream], left)
            found = _take(session, (now, until, limit), request, lane.room) if limit > 0 else []
            taken += found
            left -= len(found)
            room[stream] -= len(found)
            if limit > 0 and len(found) == limit and room[stream] > 0:
                hungry.append(lane)
        due = hungry
    # Looked at once more: what was taken is due again when its lease ends.
    more, due_in = _left(_lanes(session, request), now)
    return LeasedMessages(messages=tuple(taken), now=instant(now), more=more, due_in=due_in)


def _take(
    session: Session, terms: tuple[int, int, int], request: MessageRequest, room: StreamRoom
) -> list[LeasedMessage]:
    now, until, limit = terms
    query = SQL["lease_ordered" if room.ordered else "lease_messages"](
        box=request.box.value,
        stream=room.stream,
        holder=request.holder,
        now=now,
        until=until,
        limit=limit,
    )
    return handed(request, session.run(query), {room.stream} if room.ordered else ())


# -- settle ----------------------------------------------------------------------------------------


def settle(
    session: Session, now: int, settlements: Sequence[MessageSettlement]
) -> list[MessageSettled]:
    """Settle a batch; the answers are in its order."""
    return [
        answer
        for run in _runs(settlements)
        for answer in isolating(session, run, lambda part: _settle(session, now, part), _refused)
    ]


def _runs(settlements: Sequence[MessageSettlement]) -> Iterator[list[MessageSettlement]]:
    """Parts of a batch in which each message stands once: of several only one can hold."""
    run: dict[str, MessageSettlement] = {}
    for one in settlements:
        if one.message.id in run:
            yield list(run.values())
            run = {}
        run[one.message.id] = one
    yield list(run.values())


def _refused(settlement: MessageSettlement, error: Exception) -> MessageSettled:
    return MessageSettled(id=settlement.message.id, status=SettleStatus.REFUSED, error=error)


def _settle(
    session: Session, now: int, settlements: list[MessageSettlement]
) -> list[MessageSettled]:
    ends: dict[str, list[tuple[Any, ...]]] = {"done_messages": [], "settle_messages": []}
    for one in settlements:
        name, row = _end(one, now)
        ends[name].append(row)
    found: list[Row] = []
    for name, rows in ends.items():
        if rows:
            found += session.run(SQL[name](batch=batch(rows), now=now))
    applied = {message: state for message, state, _ in found}
    if any(state == _PENDING or keyed for _, state, keyed in found):
        session.stirred = True  # it, or what stood behind it, is due
    enqueued = _carry_out(session, now, [one for one in settlements if one.message.id in applied])
    return [_answer(one, applied, enqueued) for one in settlements]


def _carry_out(
    session: Session, now: int, settlements: list[MessageSettlement]
) -> dict[str, tuple[Enqueued, ...]]:
    """The effects of all, in one go."""
    carriers = [one for one in settlements if one.effects and isinstance(one.outcome, Succeeded)]
    if not carriers:
        return {}
    refuse_contributions(*(one.effects for one in carriers))
    together = Effects(
        jobs=tuple(job for one in carriers for job in one.effects.jobs),
        messages=tuple(new for one in carriers for new in one.effects.messages),
        log=tuple(new for one in carriers for new in one.effects.log),
        gates=tuple(gate for one in carriers for gate in one.effects.gates),
        operations=tuple(each for one in carriers for each in one.effects.operations),
    )
    answers = session.drive(effect_steps(together, now))
    session.stirred = session.stirred or together.stirs_messages
    jobs = len(together.jobs)
    of_jobs, of_messages = iter(answers[:jobs]), iter(answers[jobs:])
    return {
        one.message.id: (
            *(next(of_jobs) for _ in one.effects.jobs),
            *(next(of_messages) for _ in one.effects.messages),
        )
        for one in carriers
    }


def _answer(
    settlement: MessageSettlement, applied: dict[str, str], enqueued: dict[str, Any]
) -> MessageSettled:
    message_id = settlement.message.id
    state = applied.get(message_id)
    if state is None:
        return MessageSettled(id=message_id, status=SettleStatus.LEASE_LOST)
    return MessageSettled(
        id=message_id,
        status=SettleStatus.APPLIED,
        state=_STATES[state],
        enqueued=enqueued.get(message_id, ()),
    )


def _end(settlement: MessageSettlement, now: int) -> tuple[str, tuple[Any, ...]]:
    """The statement that writes an end, and its row: id, holder, when to forget the message.

    Of one that is not done also state, whether it is due at another time, which, reason, failure.
    """
    head = (settlement.message.id, settlement.message.holder)
    expires = None if settlement.keep is None else later(now, settlement.keep)
    match settlement.outcome:
        case Succeeded():
            return "done_messages", (*head, expires)
        case Retry(delay=delay, failure=failure):
            text = failure_text(failure, now)
            row = (*head, None, _PENDING, "due", later(now, delay), None, text)
            return "settle_messages", row
        case Dead(reason=reason, failure=failure):
            text = failure_text(failure, now)
            dead = (*head, expires, "dead", None, None, reason.value, text)
            return "settle_messages", dead
        case Released():
            return "settle_messages", (*head, None, _PENDING, "free", None, None, None)
        case other:
            assert_never(other)


def prune(session: Session, now: int, limit: int) -> int:
    """Remove ended messages whose time has come."""
    return len(session.run(SQL["prune_messages"](now=now, limit=limit)))
