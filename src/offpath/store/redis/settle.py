"""The end of attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from offpath.errors import Conflict, InvalidArgument, StoreError
from offpath.model.effects import Effects
from offpath.model.group import Contribution
from offpath.model.job import TERMINAL, Enqueued, Failure, JobRecord, JobState
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.hints import Hint
from offpath.store.partial import refuse_absent, refuse_outcome
from offpath.store.redis import enqueue
from offpath.store.redis.capabilities import CAPABILITIES
from offpath.store.redis.connection import RedisConnection, packed
from offpath.store.redis.job_rows import StoredJob, micros, moment
from offpath.store.redis.jobs import group_done
from offpath.store.redis.unit import Unit
from offpath.store.refusals import fold_raised
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.jobs import applied, holds, settled

_LOST = SettleStatus.LEASE_LOST
_Answer = tuple[bool, str, str, int, int]
"""If the fence held, the state, the next attempt's time, the answer of its group, its redrives."""
_unpacked = msgspec.msgpack.Decoder(list[_Answer]).decode


async def settle_plain(
    connection: RedisConnection, settlements: Sequence[Settlement]
) -> list[Settled] | None:
    """End attempts that have no effects, in one call of a function; None, and nothing is written,
    where one needs a decision of ours.
    """
    now = await connection.now()
    try:
        asked = [_asked(each, now) for each in settlements]
        question = packed(asked)
    except (StoreError, UnicodeEncodeError):
        return None  # one of them is refused: which, the other way tells
    # One of them alone needs the other way; but a batch has one order, so all of it goes there.
    if not all(asked):
        return None
    answer = await connection.call("settle", question, str(micros(now)))
    if answer == 0:
        return None
    settled_ones = _unpacked(answer)
    states = {each[1] for each in settled_ones}
    if JobState.QUEUED in states:
        connection.hints.emit(Hint.WORK)
    if states & TERMINAL:
        connection.hints.emit(Hint.ENDED)
    return [_answer(*pair) for pair in zip(settlements, settled_ones, strict=True)]


def _asked(settlement: Settlement, now: datetime) -> list[Any]:
    """A settlement as the function takes it; empty where it does not. Raises StoreRejected."""
    job, outcome = settlement.job, settlement.outcome
    if settlement.effects:
        return []
    keep = maybe_later(now, settlement.keep)
    kept = False if keep is None else str(micros(keep))
    match outcome:
        case Succeeded(result=result, contributes=gives):
            rest = [
                "succeeded",
                kept,
                False if result is None else result,
                False,
                False,
                False,
                0,
                not gives,
            ]
        case Retry(delay=delay, failure=failure):
            due = str(micros(later(now, delay)))
            rest = ["queued", kept, False, _failed(failure, now), False, due, 1, False]
        case Snoozed(cool_down=None, delay=delay, until=until, reason=reason):
            due = str(micros(later(now, delay) if until is None else until))
            rest = ["queued", kept, False, False, reason, due, 0, False]
        case Released(reason=reason):
            rest = ["queued", kept, False, False, reason or False, False, 0, False]
        case Dead(reason=dead, failure=failure):
            rest = ["dead", kept, False, _failed(failure, now), dead.value, False, 0, False]
        case Cancelled(failure=failure):
            rest = ["cancelled", kept, False, _failed(failure, now), "cancelled", False, 0, False]
        case _:
            return []
    return [job.id, job.worker, job.deliveries, *rest]


def _failed(failure: Failure | None, now: datetime) -> str | bool:
    if failure is None:
        return False
    at = failure if failure.at is not None else replace(failure, at=now)
    return msgspec.json.encode(at).decode()


def _answer(settlement: Settlement, answer: _Answer) -> Settled:
    held, state, run_at, told, redrives = answer
    if not held:
        return Settled(id=settlement.job.id, status=_LOST)
    return Settled(
        id=settlement.job.id,
        status=SettleStatus.APPLIED,
        state=JobState(state),
        run_at=moment(run_at) if run_at else None,
        group_done=told & 3 == 1 or (told & 3 == 0 and redrives == 0),
        closing=told > 0 and bool(told & 4),
    )


async def settle(unit: Unit, settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle each; one that cannot be holds back none of the others."""
    await _load(unit, settlements)
    return [_settle_one(unit, each) for each in settlements]


async def _load(unit: Unit, settlements: Sequence[Settlement]) -> None:
    await unit.load(each.job.id for each in settlements)
    writing = [each for each in settlements if _may_write(each)]
    if not writing:
        return
    groups = (unit.group_id(each.job.id) for each in writing)
    await unit.load_groups(each for each in groups if each is not None)
    wanted = [each.effects for each in writing if each.effects]
    if wanted:
        await enqueue.load(unit, wanted)


def _may_write(settlement: Settlement) -> bool:
    """True if more than the job and the count of its group may change."""
    outcome = settlement.outcome
    if not isinstance(outcome, Succeeded | Snoozed | Waiting):
        return False
    return bool(settlement.effects) or isinstance(outcome, Succeeded)


def _settle_one(unit: Unit, settlement: Settlement) -> Settled:
    row = unit.job(settlement.job.id)
    # The fence: a worker that was given up must not end what another one runs now.
    if row is None or not holds(row.record, settlement.job):
        return Settled(id=settlement.job.id, status=_LOST)
    point = (
        unit.savepoint()
        # Only these may be refused when something of them was filed already, and a copy of the unit
        # costs more than most ends.
        if settlement.effects or isinstance(settlement.outcome, Succeeded)
        else None
    )
    try:
        return _end(unit, settlement, row)
    except (Conflict, StoreError, InvalidArgument) as error:
        if point is not None:
            unit.restore(point)
        return Settled(id=row.record.id, status=SettleStatus.REFUSED, error=error)


def _end(unit: Unit, settlement: Settlement, row: StoredJob) -> Settled:
    outcome, held = settlement.outcome, row.record
    expires_at: datetime | None = maybe_later(unit.now, settlement.keep)
    after = settled(held, outcome, unit.now, expires_at)
    enqueued: tuple[Enqueued, ...] = ()
    # An attempt that was to be cancelled ends so, and what it asked for is not carried out.
    if not held.cancel_requested:
        _refuse(outcome, unit)
        if isinstance(outcome, Succeeded | Snoozed):
            _contribute(unit, after, outcome, settlement.effects.contributions, settlement)
            if settlement.effects:
                enqueued = _carry_out(unit, settlement.effects, row._replace(record=after))
                row = unit.job(held.id) or row
                after = row.record  # its own effects may have rewritten it
    unit.file(row._replace(record=after), was=held)
    return applied(after, enqueued)


def _refuse(outcome: Outcome, unit: Unit) -> None:
    """Raise for outcomes that need what the backend has not, or a time that cannot be."""
    refuse_outcome(CAPABILITIES, outcome)
    if isinstance(outcome, Snoozed) and outcome.cool_down is not None:
        later(unit.now, outcome.cool_down)


def _carry_out(unit: Unit, effects: Effects, after: StoredJob) -> tuple[Enqueued, ...]:
    """File what the attempt has brought into being, before it leaves its group."""
    refuse_absent(CAPABILITIES, effects)
    unit.becomes(after)
    return tuple(enqueue.add(unit, effects, after.record.group_id))


def _contribute(
    unit: Unit,
    job: JobRecord,
    outcome: Outcome,
    given: Sequence[Contribution],
    settlement: Settlement,
) -> None:
    """Change the value of the job's group."""
    result = outcome.result if isinstance(outcome, Succeeded) else None
    gives = result if isinstance(outcome, Succeeded) and outcome.contributes else None
    known = unit.has_group(job.group_id)
    alone = not known and not settlement.effects.jobs
    if not given and (gives is None if known else alone and gives == result):
        return  # nothing is given, or a lone job's record says it all
    value, final = unit.value_of(job.group_id)
    for payload, is_final in _folded(value, final, given):
        value, final = payload, is_final
    # The result comes last, as on every store: what the handler gave by hand may have closed the
    # value.
    if gives is not None and not final:
        value = gives
    unit.put_value(job.group_id, value, final=final)


def _folded(
    value: str | None, final: bool, given: Sequence[Contribution]
) -> Iterator[tuple[str | None, bool]]:
    """The value after each contribution. Raises StoreRejected when a fold raises."""
    for each in given:
        if final:
            return
        if each.fold is None:
            value = each.payload
        else:
            try:
                value = each.fold(value, each.payload)
            except Exception as error:
                raise fold_raised(error) from error
        final = each.final
        yield value, final


def answered(unit: Unit, answers: Sequence[Settled]) -> list[Settled]:
    """The answers with what the write has answered about the jobs' groups."""
    return [_with_group(unit, each) for each in answers]


def _with_group(unit: Unit, answer: Settled) -> Settled:
    if answer.status is not SettleStatus.APPLIED or answer.id not in unit.ended:
        return answer
    done = group_done(unit, answer.id)
    return replace(answer, group_done=done, closing=bool(unit.ended[answer.id] & 4))
