"""Reads of jobs: nothing here changes what is kept, and no read holds up the server for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from offpath.model.brief import Kind
from offpath.model.deaths import Deaths, Whose
from offpath.model.group import GroupRecord
from offpath.model.id_range import id_range
from offpath.model.job import LIVE, Count, JobFilter, JobRecord, JobState, Page
from offpath.model.limit import QueueRecord, counted_to
from offpath.model.message import Box
from offpath.store.flow import MOST_IN_QUEUE
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog
from offpath.store.redis import keys
from offpath.store.redis.groups import beside, record_of
from offpath.store.redis.groups import row_of as group_of
from offpath.store.redis.job_rows import PRIORITY_DIGITS, micros, moment, run_time, state_of
from offpath.store.redis.unit import Unit
from offpath.store.rows.job_filter import tests_of

_AT_ONCE: Final = 200
"""Jobs that one look reads: a server does nothing else meanwhile."""
_ANY: Final = JobFilter()
_ID_INDEXES: Final = {
    Kind.JOB: keys.IDS,
    Kind.MESSAGE: keys.MESSAGE_IDS,
    Kind.WORKER: keys.WORKERS,
}
"""The kinds that are found here by the beginning of an id, each with its index."""
_MOST_PRIORITIES: Final = 100
"""Priorities of a lane that are looked at for its oldest job."""


async def get(unit: Unit, ids: Sequence[str]) -> list[JobRecord]:
    """The jobs of these ids that exist."""
    return [row.record for row in (await unit.peek(ids)).values()]


async def states(unit: Unit, ids: Sequence[str]) -> dict[str, JobState]:
    """The states of these ids."""
    blobs = await unit.read(*(["HGET", unit.key(keys.JOB + each), "d"] for each in ids))
    found = zip(ids, blobs, strict=True)
    return {each: state_of(blob) for each, blob in found if blob is not None}


async def find(
    unit: Unit,
    where: JobFilter,
    *,
    limit: int = 100,
    after: str | None = None,
    newest: bool = True,
) -> Page:
    """One page of the jobs that match, by id."""
    limit = min(limit, MOST_ON_A_PAGE)
    items = list[JobRecord]()
    if limit <= 0:
        return Page(items=())
    async for job in _walk(unit, where, after=after, newest=newest):
        if len(items) == limit:
            return Page(items=tuple(items), next=items[-1].id)
        # Only the last failure: a page of whole histories would be large.
        items.append(replace(job, failures=job.failures[-1:]))
    return Page(items=tuple(items))


async def _walk(
    unit: Unit, where: JobFilter, *, after: str | None, newest: bool
) -> AsyncIterator[JobRecord]:
    """The jobs that match, by id, from the smallest index there is for the filter."""
    if where.ids:
        ids = sorted(set(where.ids), reverse=newest)
        ids = [each for each in ids if after is None or (each < after if newest else each > after)]
        for start in range(0, len(ids), _AT_ONCE):
            async for job in _matching(unit, where, ids[start : start + _AT_ONCE]):
                yield job
        return
    while True:
        ids = await _next_ids(unit, where, after=after, newest=newest)
        async for job in _matching(unit, where, ids):
            yield job
        if len(ids) < _AT_ONCE:
            return
        after = ids[-1]


async def _matching(unit: Unit, where: JobFilter, ids: Sequence[str]) -> AsyncIterator[JobRecord]:
    rows, tests = await unit.peek(ids), tests_of(where)
    for each in ids:
        if each in rows and all(test(rows[each].record) for test in tests):
            yield rows[each].record


async def _next_ids(unit: Unit, where: JobFilter, *, after: str | None, newest: bool) -> list[str]:
    """The next ids of an index that holds all jobs that match."""
    if where.group_id is not None:
        indexes = [keys.MEMBERS + where.group_id]
    elif where.states:
        indexes = [keys.STATE + each.value for each in dict.fromkeys(where.states)]
    else:
        indexes = [keys.IDS]
    bounds = _bounds(after, newest=newest)
    command = ["ZRANGE"], [*bounds, "BYLEX", *(["REV"] if newest else []), "LIMIT", 0, _AT_ONCE]
    found = await unit.read(*([*command[0], unit.key(each), *command[1]] for each in indexes))
    ids = {each.decode() for one in found for each in one}
    root = where.group_id
    if root is not None and (after is None or (root < after if newest else root > after)):
        ids.add(root)
    return sorted(ids, reverse=newest)[:_AT_ONCE]


def _bounds(after: str | None, *, newest: bool) -> list[str]:
    if newest:
        return ["+" if after is None else f"({after}", "-"]
    return ["-" if after is None else f"({after}", "+"]


async def count(unit: Unit, where: JobFilter) -> list[Count]:
    """The number of jobs that match. Without other conditions than state, queue and task no job is
    looked at.
    """
    tally = dict[tuple[JobState, str, str], int]()
    if replace(where, states=(), queues=(), tasks=()) == _ANY:
        for key, number in (await _tally(unit)).items():
            if _tallied(key, where):
                tally[key] = number
    else:
        async for job in _walk(unit, where, after=None, newest=True):
            key = job.state, job.queue, job.task
            tally[key] = tally.get(key, 0) + 1
    return [
        Count(state=state, queue=queue, task=task, count=number)
        for (state, queue, task), number in sorted(tally.items())
    ]


async def _tally(unit: Unit) -> dict[tuple[JobState, str, str], int]:
    (found,) = await unit.read(["HGETALL", unit.key(keys.COUNTS)])
    tally = dict[tuple[JobState, str, str], int]()
    for field, number in found.items():
        state, _, place = field.partition(b":")
        queue, task = keys.halves(place)
        tally[JobState(state.decode()), queue, task] = int(number)
    return tally


def _tallied(key: tuple[JobState, str, str], where: JobFilter) -> bool:
    state, queue, task = key
    return (
        (not where.states or state in where.states)
        and (not where.queues or queue in where.queues)
        and (not where.tasks or task in where.tasks)
    )


async def _lanes(unit: Unit) -> list[tuple[str, str]]:
    """The queues and tasks that have waiting jobs."""
    tally = await _tally(unit)
    return sorted({(queue, task) for state, queue, task in tally if state is JobState.QUEUED})


async def backlog(unit: Unit, *, limit: int = 1000) -> list[Backlog]:
    """Due work by queue and task."""
    if limit <= 0:
        return []
    apart = await _suspects(unit)
    found = [
        await _backlog_of(unit, place, apart.get(place, []), limit) for place in await _lanes(unit)
    ]
    return [each for each in found if each is not None]


async def _backlog_of(
    unit: Unit, place: tuple[str, str], apart: Sequence[datetime], limit: int
) -> Backlog | None:
    queue, task = place
    lane = keys.pair(queue, task)
    ready, due, first = await unit.read(
        ["ZCARD", unit.key(keys.READY + lane)],
        ["ZCOUNT", unit.key(keys.SCHEDULED + lane), "-inf", micros(unit.now)],
        ["ZRANGE", unit.key(keys.SCHEDULED + lane), 0, 0],
    )
    times = [*(at for at in apart if at <= unit.now), *await _ready_times(unit, lane)]
    ready += sum(at <= unit.now for at in apart)
    if due:
        times += [row.record.run_at for row in (await unit.peek([first[0].decode()])).values()]
    if not times:
        return None
    return Backlog(queue=queue, task=task, ready=min(ready + due, limit), oldest_run_at=min(times))


async def _ready_times(unit: Unit, lane: str) -> list[datetime]:
    """The run time of the first ready job of each priority in a lane."""
    times, start = list[datetime](), "-"
    while len(times) < _MOST_PRIORITIES:
        (found,) = await unit.read(
            ["ZRANGE", unit.key(keys.READY + lane), start, "+", "BYLEX", "LIMIT", 0, 1]
        )
        if not found:
            break
        member = found[0].decode()
        times.append(run_time(member))
        start = f"({member[:PRIORITY_DIGITS]}z"  # behind all of this priority
    return times


async def _suspects(unit: Unit) -> dict[tuple[str, str], list[datetime]]:
    """The run times of waiting suspects, which stand in no lane, by queue and task."""
    (found,) = await unit.read(["ZRANGE", unit.key(keys.SUSPECTS), 0, -1])
    times = dict[tuple[str, str], list[datetime]]()
    for row in (await unit.peek([each.decode() for each in found])).values():
        job = row.record
        if job.state is JobState.QUEUED:
            times.setdefault((job.queue, job.task), []).append(job.run_at)
    return times


async def queues(unit: Unit, *, most: int = MOST_IN_QUEUE) -> list[QueueRecord]:
    """Queues with unended jobs or a pause."""
    counts = dict[str, dict[JobState, int]]()
    scheduled = dict[str, int]()
    for (state, queue, _), number in (await _tally(unit)).items():
        if state in LIVE:
            of_queue = counts.setdefault(queue, {})
            of_queue[state] = of_queue.get(state, 0) + number
    for queue, task in await _lanes(unit):
        lane = keys.SCHEDULED + keys.pair(queue, task)
        (number,) = await unit.read(["ZCARD", unit.key(lane)])
        scheduled[queue] = scheduled.get(queue, 0) + number
    for (queue, _), times in (await _suspects(unit)).items():
        later = sum(at > unit.now for at in times)
        scheduled[queue] = scheduled.get(queue, 0) + later
    paused = await paused_queues(unit)
    return [
        counted_to(most, _queue_record(name, counts.get(name, {}), scheduled.get(name, 0), paused))
        for name in sorted(counts.keys() | paused.keys())
    ]


def _queue_record(
    name: str,
    counts: dict[JobState, int],
    scheduled: int,
    paused: dict[str, datetime | None],
) -> QueueRecord:
    until = paused.get(name)
    return QueueRecord(
        name=name,
        blocked=counts.get(JobState.BLOCKED, 0),
        scheduled=scheduled,
        ready=counts.get(JobState.QUEUED, 0) - scheduled,
        running=counts.get(JobState.RUNNING, 0),
        paused=name in paused and until is None,
        paused_until=until,
    )


async def paused_queues(unit: Unit) -> dict[str, datetime | None]:
    """The queues that hand out nothing now, each with the end of its pause."""
    (found,) = await unit.read(["HGETALL", unit.key(keys.PAUSES)])
    ends = {name.decode(): moment(end.decode()) if end else None for name, end in found.items()}
    return {name: end for name, end in ends.items() if end is None or unit.now < end}


async def deaths(unit: Unit, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
    """Dead letters by whose they are and name."""
    (found,) = await unit.read(
        ["ZREVRANGE", unit.key(keys.STATE + JobState.DEAD.value), 0, limit - 1]
    )
    counted = Counter[tuple[Whose, str]]()
    for start in range(0, len(found), _AT_ONCE):
        rows = await unit.peek([each.decode() for each in found[start : start + _AT_ONCE]])
        for job in (row.record for row in rows.values()):
            if since is None or (job.finished_at is not None and job.finished_at >= since):
                counted[Whose.TASK, job.task] += 1
    (streams,) = await unit.read(["SMEMBERS", unit.key(keys.STREAMS)])
    for place in sorted(each.decode() for each in streams):
        box, _, stream = place.partition(":")
        first = "-inf" if since is None else micros(since)
        (number,) = await unit.read(["ZCOUNT", unit.key(keys.DEAD_MESSAGES + place), first, "+inf"])
        if number:
            whose = Whose.STREAM if box == Box.OUT.value else Whose.SOURCE
            counted[whose, stream] = min(number, limit)
    return [
        Deaths(whose=whose, name=name, count=min(number, limit))
        for (whose, name), number in sorted(counted.items())
    ]


async def ids_beginning(unit: Unit, kind: Kind, beginning: str, *, limit: int = 10) -> list[str]:
    """Ids of a kind that begin with a text, in their order."""
    between, index = id_range(beginning), _ID_INDEXES.get(kind)
    if between is None or index is None or limit <= 0:
        return []
    first, last = between
    if kind is Kind.WORKER:
        (found,) = await unit.read(["ZRANGE", unit.key(index), 0, -1])
        return sorted(one for each in found if first <= (one := each.decode()) <= last)[:limit]
    command = ["ZRANGE", unit.key(index), f"[{first}", f"[{last}", "BYLEX", "LIMIT", 0, limit]
    (found,) = await unit.read(command)
    return [each.decode() for each in found]


async def groups(unit: Unit, ids: Sequence[str]) -> list[GroupRecord]:
    """The groups of these ids that exist."""
    wanted = list(dict.fromkeys(ids))
    rows = await unit.read(*(["HGETALL", unit.key(keys.GROUP + each)] for each in wanted))
    roots = await unit.peek(wanted)
    found = list[GroupRecord]()
    for group_id, fields in zip(wanted, rows, strict=True):
        row = group_of(fields)
        root = roots.get(group_id)
        if row is None and root is not None and root.record.group_id == group_id:
            row = beside(root.record)
        if row is not None:
            found.append(record_of(group_id, row))
    return found
