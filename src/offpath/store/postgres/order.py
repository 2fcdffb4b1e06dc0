"""Leases in another order than the plain one: with room per queue, by age, balanced by fair key.

Candidates are read without locks, the choice is made here by the rules that every backend follows,
and what was chosen is taken if nobody else has it by then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from offpath.model.lease import LeaseRequest, Order
from offpath.store.postgres.handouts import JOB
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Rows, Send, Steps
from offpath.store.sql import Catalogue, Query, Row

Rank = tuple[Any, ...]
"""Orders compare ranks of their own kind only."""
_KEYS: Final = 64
"""Fair keys of all lanes that a lease looks at, if it is not for more jobs."""
_READ = {
    Order.PRIORITY: "ready_by_priority",
    Order.AGE: "ready_by_age",
    Order.BALANCED: "ready_by_turn",
}


class Candidate(NamedTuple):
    """A ready job. Times are microseconds."""

    id: str
    queue: str
    task: str
    fair: str
    priority: int
    run_at: int
    enqueued_at: int


_Turn = tuple[int, Rank, Candidate]
_WIDTH: Final = len(Candidate._fields)


class KeyTurns:
    """The fair key from which the next lease in turns looks on.

    A lease looks at a bounded number of keys. So each has its turn where there are more of them.
    """

    __slots__ = ("start",)

    def __init__(self) -> None:
        self.start = ""

    def learn(self, rows: Rows) -> None:
        """Take in which keys were looked at, in their order, by the rows of ``ready_by_turn``."""
        for _, _, _, key, _, _, _, nth, most in rows:
            if nth == most:  # the last one of a lane that has more
                self.start = key
                return
        self.start = ""


class Choice(NamedTuple):
    """The jobs that a lease should take, in its order, and a mark if there would be more."""

    ids: list[str]
    more: bool
    cut: bool = False
    """True if a list was used up that was not read to its end, so that the choice may be wrong."""


def plain(request: LeaseRequest) -> bool:
    """True if the plain statement does what is asked for."""
    special = request.queue_rooms or request.declined
    return request.order is Order.PRIORITY and not special


def take_steps(
    request: LeaseRequest,
    limit: int,
    promote: Query,
    now: datetime | None,
    turns: KeyTurns,
    *,
    sql: Catalogue,
) -> Steps[tuple[Rows, Choice]]:
    """Choose and take; the rows are those of a lease."""
    reach = limit + 1
    # By age and by turn there is a list for each priority or fair key, and most are not used up. A
    # choice that did use one up is made again from longer lists.
    few = reach if request.order is Order.PRIORITY else max(limit // 16, 4)
    balanced = request.order == Order.BALANCED
    counts = (sql["running_by_fair_key"](),) if balanced else ()
    _, rows, *rest = yield Send(
        (promote, _read(request, min(few, reach), now, turns, sql), *counts)
    )
    running = dict(map(tuple, rest[0])) if rest else {}
    choice = choose(request, limit, rows, running, few)
    if choice.cut and few < reach:
        (rows,) = yield Send((_read(request, reach, now, turns, sql),))
        choice = choose(request, limit, rows, running, reach)
    if balanced:
        turns.learn(rows)
    query = sql["take_chosen"](
        now=moment(now),
        ids=to_json(choice.ids),
        worker=request.worker,
        tasks=to_json(request.tasks),
        queues=to_json(request.queues),
        begun=False,
    )
    (taken,) = yield Send((query,), last=True)
    # The statement answers in no order of its own, and may miss jobs that others have taken.
    place = {job: n for n, job in enumerate(choice.ids)}
    return sorted(taken, key=lambda row: place.get(row[JOB], 0)), choice


def _read(
    request: LeaseRequest, reach: int, now: datetime | None, turns: KeyTurns, sql: Catalogue
) -> Query:
    own = {}
    if request.order == Order.BALANCED:
        own = {"from": turns.start, "keys": max(request.limit, _KEYS), "best": request.limit + 1}
    return sql[_READ[request.order]](
        now=moment(now),
        worker=request.worker,
        tasks=to_json(request.tasks),
        queues=to_json(request.queues),
        rooms=to_json(request.queue_rooms),
        declined=to_json(request.declined),
        reach=reach,
        **own,
    )


class _Line:
    """The candidates of one queue: lists that are each in order, merged as they are used."""

    def __init__(
        self, lists: Iterable[list[Candidate]], order: Order, running: Mapping[str, int]
    ) -> None:
        self._order = order
        self._running = running
        self._heads = [(self._rank(each[-1]), n, each) for n, each in enumerate(lists)]
        heapq.heapify(self._heads)

    def best(self, rooms: Mapping[str, float]) -> tuple[Rank, Candidate] | None:
        """The best job that its task has room for. A rank only ever grows, so a head that was
        ranked before its key got one more is put back with its rank of now.
        """
        while self._heads:
            rank, n, left = self._heads[0]
            head = left[-1]
            if rooms[head.task] <= 0:
                heapq.heappop(self._heads)
            elif (now := self._rank(head)) != rank:
                heapq.heapreplace(self._heads, (now, n, left))
            else:
                return rank, head
        return None

    def moved_on(self) -> bool:
        """The best was taken; whether its list is used up."""
        _, n, left = self._heads[0]
        left.pop()
        if left:
            heapq.heapreplace(self._heads, (self._rank(left[-1]), n, left))
            return False
        heapq.heappop(self._heads)
        return True

    def _rank(self, one: Candidate) -> Rank:
        return _rank(one, self._order, self._running)


def _rank(one: Candidate, order: Order, running: Mapping[str, int]) -> Rank:
    match order:
        case Order.PRIORITY:
            return -one.priority, one.run_at, one.id
        case Order.AGE:
            return one.enqueued_at, one.id
        case Order.BALANCED:
            return running.get(one.fair, 0), -one.priority, one.enqueued_at, one.id


def choose(
    request: LeaseRequest,
    limit: int,
    rows: Iterable[Row],
    running: Mapping[str, int],
    reach: int,
) -> Choice:
    """The choice of a lease: in each step the queue that was served least gives its best job."""
    counts = dict(running)
    lists = _lists(rows, request.order)
    full = {key for key, each in lists.items() if len(each) >= reach}
    lines = _lines(lists, request.order, counts)
    tasks = _bounds(request.tasks, limit)
    queues = _bounds(request.queue_rooms, limit)
    served = dict(request.served)
    chosen: list[tuple[Rank, str]] = []
    cut = False
    heads = [turn for queue in lines if (turn := _turn(queue, lines, tasks, served))]
    heapq.heapify(heads)
    while len(chosen) < limit and (best := _best(heads, lines, tasks, served)):
        rank, one = best
        chosen.append((rank, one.id))
        used_up = lines[one.queue].moved_on()
        cut |= used_up and _kind(one, request.order) in full
        # Counted at once: the next step ranks the same key behind keys that have fewer running.
        counts[one.fair] = counts.get(one.fair, 0) + 1
        tasks[one.task] -= 1
        served[one.queue] = served.get(one.queue, 0) + 1
        if one.queue in queues:
            queues[one.queue] -= 1
            if queues[one.queue] <= 0:
                del lines[one.queue]
    if request.order is not Order.BALANCED:
        # The turns of the queues decide which jobs are taken; of these the best still begins first.
        chosen.sort()
    more = _best(heads, lines, tasks, served) is not None
    return Choice([job for _, job in chosen], more, cut)


def _best(
    heads: list[_Turn],
    lines: Mapping[str, _Line],
    tasks: Mapping[str, float],
    served: Mapping[str, int],
) -> tuple[Rank, Candidate] | None:
    """The best job of the queue whose turn it is. A turn only ever grows, so one that is not as it
    was is put back.
    """
    while heads:
        turn = _turn(heads[0][2].queue, lines, tasks, served)
        if turn is None:
            heapq.heappop(heads)
        elif turn != heads[0]:
            heapq.heapreplace(heads, turn)
        else:
            _, rank, one = turn
            return rank, one
    return None


def _turn(
    queue: str,
    lines: Mapping[str, _Line],
    tasks: Mapping[str, float],
    served: Mapping[str, int],
) -> _Turn | None:
    """The place of a queue among the others, by its best job."""
    line = lines.get(queue)
    best = None if line is None else line.best(tasks)
    return None if best is None else (served.get(queue, 0), *best)


def _kind(one: Candidate, order: Order) -> tuple[Any, ...]:
    """The list that a candidate was read into: each is in order."""
    lane = one.queue, one.task, one.fair
    # By age those with a fair key are one list, and the others one of each priority.
    return (*lane, one.priority) if order is Order.AGE and not one.fair else lane


def _lists(rows: Iterable[Row], order: Order) -> dict[tuple[Any, ...], list[Candidate]]:
    """Candidates by lane and fair key, the best last."""
    lists: dict[tuple[Any, ...], list[Candidate]] = {}
    # The best of all keys may be among those of their own key, too.
    for one in {row[0]: Candidate(*row[:_WIDTH]) for row in rows}.values():
        lists.setdefault(_kind(one, order), []).append(one)
    for each in lists.values():
        each.sort(key=lambda one: _rank(one, order, {}), reverse=True)
    return lists


def _lines(
    lists: Mapping[tuple[Any, ...], list[Candidate]], order: Order, running: Mapping[str, int]
) -> dict[str, _Line]:
    by_queue: dict[str, list[list[Candidate]]] = {}
    for (queue, *_), each in lists.items():
        by_queue.setdefault(queue, []).append(each)
    return {queue: _Line(each, order, running) for queue, each in by_queue.items()}


def _bounds(counts: Mapping[str, int], limit: int) -> dict[str, float]:
    """The number of each that may be had. The limit as a whole is never a bound of their own."""
    return {name: n if n < limit else float("inf") for name, n in counts.items() if n > 0}
