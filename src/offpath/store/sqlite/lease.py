"""The lease: which lanes have what, and the best of them in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest, Order
from offpath.store.breadth import Breadth
from offpath.store.programs import suspects
from offpath.store.programs.dialect import Rows, Steps, ask
from offpath.store.programs.instants import instant
from offpath.store.programs.leased import (
    ANNOUNCE,
    ENQUEUED_AT,
    JOB,
    LEASED,
    PRIORITY,
    RUN_AT,
    SEQ,
    WIDTH,
)
from offpath.store.sql import Query, Row
from offpath.store.sqlite import order
from offpath.store.sqlite.contradictions import Contradictions
from offpath.store.sqlite.dialect import SqliteDialect
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

# A bound: whoever leases holds the write lock, and a million jobs may be due at one moment.
PROMOTED_AT_ONCE: Final = 1_000

Lane = tuple[str, str]
"""A queue and a task."""


class Walk:
    """The places where the next lease goes on, of more lanes or fair keys than one sees."""

    __slots__ = ("breadth", "key", "queue", "task")

    def __init__(self) -> None:
        self.task = self.queue = self.key = ""
        self.breadth = Breadth()

    @property
    def at_start(self) -> bool:
        """True if the next lease begins at the first lane."""
        return not (self.task or self.queue)


def nothing_to_lease(session: Session, now: int, request: LeaseRequest) -> Leased | None:
    """The answer when there is nothing to hand out, without the write lock; otherwise None.

    An idle worker's polls then never wait for another's write, nor make one wait.
    """
    if request.suspects_only:
        return _nothing_apart(session, now, request)
    if not _may_lease(session, now, request):
        return Leased(jobs=(), now=instant(now))
    if _any_ready(session, now, request):
        return None
    due = [at for _, _, at in _lanes(session, now, "scheduled_lanes", request)]
    if any(at <= now for at in due):
        return None
    return Leased(jobs=(), now=instant(now), due_in=_seconds_until(due, now))


def _any_ready(session: Session, now: int, request: LeaseRequest) -> bool:
    """True if there may be something to hand out, at least of what is ready already."""
    # A walk of its own: a look must not move the place where the next lease goes on.
    lanes, left = _ready(session, now, request, Walk())
    if left or not lanes or not request.declined:
        return left or bool(lanes)
    return bool(order.best_of(session, now, request, lanes, 1))


def lease(
    session: Session,
    now: int,
    request: LeaseRequest,
    walk: Walk,
    contradictions: Contradictions,
) -> Leased:
    """Hand out the best ready jobs of the lanes that were asked for."""
    if request.suspects_only:
        return _lease_apart(session, now, request)
    # A worker whose lease is over gets nothing: a rescue could take the jobs back while it begins
    # them.
    if not _may_lease(session, now, request):
        return Leased(jobs=(), now=instant(now))
    scheduled = _lanes(session, now, "scheduled_lanes", request)
    # Before the choice: what has come due competes with what was ready.
    held_back = _promote(session, now, scheduled)
    if held_back or any(at <= now for _, _, at in scheduled):
        scheduled = _lanes(session, now, "scheduled_lanes", request)
    # All of it under the write lock: nobody takes between this look and the update, so no row is
    # locked.
    jobs, left = _take_in_turn(session, now, request, walk)
    # Something was ready, and nothing could be taken: a ready job that denies itself is passed over
    # by the update, and would hide those behind it for good.
    if not jobs and contradictions.set_aside(session, now, everywhere=False):
        jobs, left = _take_in_turn(session, now, request, walk)
    return Leased(
        jobs=jobs,
        now=instant(now),
        more=held_back or (len(jobs) >= request.limit > 0) or left,
        due_in=_seconds_until([at for _, _, at in scheduled], now),
    )


def _take_in_turn(
    session: Session, now: int, request: LeaseRequest, walk: Walk
) -> tuple[tuple[LeasedJob, ...], bool]:
    """Take from the lanes until there is enough, each in its turn; whether there may be more."""
    ends = 1 if walk.at_start else 2  # a round that begins in the middle ends there
    jobs: tuple[LeasedJob, ...] = ()
    rest = request
    while ends > 0 and rest.limit > 0:
        lanes, left = _ready(session, now, rest, walk)
        ends -= walk.at_start
        more = _take(session, now, rest, lanes, walk)
        if left:
            walk.breadth.learn(short=len(more) < rest.limit)
        rest = rest.without(more)
        jobs = more if not jobs else tuple(sorted((*jobs, *more), key=_RANKS[request.order]))
    return jobs, ends > 0


def _ready(
    session: Session, now: int, request: LeaseRequest, walk: Walk
) -> tuple[list[Lane], bool]:
    """The next lanes with ready jobs, and whether there may be more behind them."""
    tasks = [task for task, room in request.tasks.items() if room > 0]
    most = walk.breadth.lanes
    query = SQL["ready_lanes"](
        tasks=batch(tasks),
        queues=batch(sorted({*request.queues})),
        from_task=walk.task,
        from_queue=walk.queue,
        most=most,
    )
    rows = session.run(query)
    left = not request.queues and len(rows) >= most
    walk.task, walk.queue = _behind(rows[-1]) if left else ("", "")
    found = [(queue, task) for task, queue in rows if queue is not None]
    return _open(session, now, request, found), left


def _behind(row: Row) -> Lane:
    """The place behind a task and queue; without a queue the task is over."""
    task, queue = row
    return (task + "\x01", "") if queue is None else (task, queue + "\x01")


def _may_lease(session: Session, now: int, request: LeaseRequest) -> bool:
    return bool(session.run(SQL["alive"](worker=request.worker, now=now)))


def _lanes(session: Session, now: int, statement: str, request: LeaseRequest) -> list[Row]:
    """The lanes of the tasks and queues that were asked for, where there is room and no pause."""
    tasks = [task for task, room in request.tasks.items() if room > 0]
    query = SQL[statement](tasks=batch(tasks), queues=batch(sorted({*request.queues})))
    return _open(session, now, request, session.run(query))


def _open(session: Session, now: int, request: LeaseRequest, lanes: list[Any]) -> list[Any]:
    """The lanes whose queue has room and no pause."""
    lanes = [lane for lane in lanes if request.queue_rooms.get(lane[0], 1) > 0]
    stopped = {name for name, _ in session.run(SQL["paused_queues"](now=now))} if lanes else ()
    return [lane for lane in lanes if lane[0] not in stopped] if stopped else lanes


def _promote(session: Session, now: int, scheduled: Iterable[Row]) -> bool:
    """Make due scheduled jobs ready; True when some may have been left for the next time."""
    due = [(queue, task) for queue, task, at in scheduled if at <= now]
    if not due:
        return False
    query = SQL["promote"](lanes=batch(due), now=now, limit=PROMOTED_AT_ONCE)
    keys = session.run(query)
    if any(key is not None for (key,) in keys):
        session.released = True  # to be admitted now
    return len(keys) >= PROMOTED_AT_ONCE


def _take(
    session: Session, now: int, request: LeaseRequest, lanes: list[Lane], walk: Walk
) -> tuple[LeasedJob, ...]:
    if request.limit <= 0 or not lanes:
        return ()
    one_queue = len({queue for queue, _ in lanes}) == 1
    if request.order is Order.PRIORITY and one_queue and not request.declined:
        rows = session.run(_of_one_queue(now, request, lanes))
        rows.sort(key=_rank)
    else:
        rows = _chosen(session, now, request, lanes, walk)
    return _handed_out(session, rows)


def _of_one_queue(now: int, request: LeaseRequest, lanes: list[Lane]) -> Query:
    """Within one queue, its own order is the whole order."""
    shared = {"worker": request.worker, "now": now}
    queue, task = lanes[0]
    limit = min(request.limit, request.queue_rooms.get(queue, request.limit))
    if len(lanes) == 1:
        room = min(limit, request.tasks[task])
        return SQL["lease_lane"](queue=queue, task=task, limit=room, **shared)
    rooms = batch([(queue, task, request.tasks[task]) for queue, task in lanes])
    return SQL["lease_lanes"](lanes=rooms, limit=limit, **shared)


def _chosen(
    session: Session, now: int, request: LeaseRequest, lanes: list[Lane], walk: Walk
) -> list[Row]:
    """Several queues, or another order: chosen first, then handed out."""
    chosen, walk.key = order.choose(session, now, request, lanes, walk.key)
    query = SQL["take_chosen"](jobs=batch(chosen), worker=request.worker, now=now)
    rows = session.run(query) if chosen else []
    match request.order:
        case Order.PRIORITY:
            rows.sort(key=_rank)
        case Order.AGE:
            rows.sort(key=_age)
        case Order.BALANCED:
            place = {seq: at for at, seq in enumerate(chosen)}
            rows.sort(key=lambda row: place[row[SEQ]])
    return rows


_RANKS: Final[dict[Order, Callable[[LeasedJob], Any]]] = {
    Order.PRIORITY: lambda job: (-job.priority, job.run_at, job.id),
    Order.AGE: lambda job: (job.enqueued_at, job.id),
    Order.BALANCED: lambda _: 0,  # they stay as they were taken
}
"""The merge of the jobs of several looks."""


def _rank(row: Row) -> tuple[int, int, str]:
    return -row[PRIORITY], row[RUN_AT], row[JOB]


def _age(row: Row) -> tuple[int, str]:
    return row[ENQUEUED_AT], row[JOB]


def _seconds_until(due: Iterable[int], now: int) -> float | None:
    first = min(due, default=None)
    return None if first is None else max(first - now, 0) / 1_000_000


# -- suspects --------------------------------------------------------------------------------------


def _nothing_apart(session: Session, now: int, request: LeaseRequest) -> Leased | None:
    more = session.perform(suspects.offered(SqliteDialect(now), request))
    if more and request.limit > 0:
        return None
    return Leased(jobs=(), now=instant(now), more=more)


def _lease_apart(session: Session, now: int, request: LeaseRequest) -> Leased:
    """Hand out a set of suspects, not begun yet."""

    def take(places: Sequence[int]) -> Steps[Rows]:
        if not places:
            return []
        query = SQL["take_chosen"](jobs=batch(places), worker=request.worker, now=now)
        return (yield from ask(query))

    rows, more = session.perform(suspects.apart(SqliteDialect(now), request, take, job=JOB))
    return Leased(jobs=_handed_out(session, rows), now=instant(now), more=more)


def _handed_out(session: Session, rows: Rows) -> tuple[LeasedJob, ...]:
    if any(row[ANNOUNCE] for row in rows):
        session.stirred = True
    return tuple(LEASED.all(row[:WIDTH] for row in rows))


def held(session: Session, worker: str) -> list[LeasedJob]:
    """The jobs that a worker holds."""
    return LEASED.all(session.run(SQL["held"](worker=worker)))
