"""Leases in another order than that of one lane: fair between queues, by age, or balanced.

The candidates come from an index, as many of each line as could be taken at most; the choice among
them is made here.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from offpath.model.lease import LeaseRequest, Order
from offpath.store.sql import Row
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

Lane = tuple[str, str]
"""A queue and a task."""

Rank = tuple[Any, ...]
"""A job's place in its order; its last part is its ``seq``."""

_by_rank: Final = attrgetter("rank")
_KEYS: Final = 64
"""Fair keys of all lanes that a lease looks at, if it is not for more jobs."""
_FEWEST: Final = 8
"""Fair keys of one lane that are looked at, however many lanes there are."""
_SHALLOW: Final = 4
"""Candidates of each fair key that are looked at before more are asked for."""


class _Candidate(Struct, frozen=True, gc=False, order=True):
    """A ready job that could be handed out."""

    rank: Rank
    queue: str
    task: str
    key: str

    @property
    def seq(self) -> int:
        """The job's row."""
        seq: int = self.rank[-1]
        return seq


def choose(
    session: Session, now: int, request: LeaseRequest, lanes: Sequence[Lane], start: str
) -> tuple[list[int], str]:
    """The jobs to hand out, as their ``seq``, best first; and the fair key from which the next
    lease looks on, as this one does from ``start``.
    """
    lines = [(queue, task, "") for queue, task in lanes]
    match request.order:
        case Order.PRIORITY:
            return _deepening(session, now, request, "lane_best", lines, {}), ""
        case Order.AGE:
            # Made by the first lease by age: where nobody leases so, no job pays for it.
            session.run(SQL["age_index"]())
            return _deepening(session, now, request, "lane_oldest", lines, {}), ""
        case Order.BALANCED:
            # In the same way, by the first lease in turns.
            session.run(SQL["turn_index"]())
            return _balanced(session, now, request, lanes, start)


def best_of(
    session: Session, now: int, request: LeaseRequest, lanes: Sequence[Lane], limit: int
) -> list[Row]:
    """The first jobs of each lane that may run now and that this worker has not declined."""
    declined = batch(request.declined)
    query = SQL["lane_best"](lines=batch(lanes), limit=limit, declined=declined, now=now)
    return session.run(query)


def _candidates(rows: Iterable[Row]) -> list[_Candidate]:
    return [
        _Candidate(rank=tuple(rank), queue=queue, task=task, key=key)
        for queue, task, key, *rank in rows
    ]


def _balanced(
    session: Session, now: int, request: LeaseRequest, lanes: Sequence[Lane], start: str
) -> tuple[list[int], str]:
    most = max(max(request.limit, _KEYS) // max(len(lanes), 1), _FEWEST)
    lines = _keys(session, lanes, start, most)
    if start:
        lines += _before(session, lanes, start, most, lines)
    seen = Counter((queue, task) for queue, task, _ in lines)
    full = [lane for lane in lanes if seen[lane] >= most]
    # Of more keys the best jobs of all come along: they do not wait for the turns of their keys.
    query = SQL["turn_first"](
        lines=batch(full), limit=request.limit, declined=batch(request.declined), now=now
    )
    best = _candidates(session.run(query)) if full else []
    running = _running(session, {*(line[2] for line in lines), *(each.key for each in best)})
    chosen = _deepening(session, now, request, "turn_best", lines, running, best)
    last = [key for queue, task, key in lines if (queue, task) in full]
    return chosen, last[-1] if last else ""


def _keys(session: Session, lanes: Sequence[Lane], start: str, most: int) -> list[Row]:
    """Up to so many fair keys of each lane, in order."""
    query = SQL["turn_keys"](lanes=batch(lanes), start=start, most=most)
    return sorted(session.run(query), key=tuple)


def _before(
    session: Session, lanes: Sequence[Lane], start: str, most: int, lines: Iterable[Row]
) -> list[Row]:
    """The keys before ``start``, of the lanes that have fewer than ``most`` behind it."""
    left = Counter(dict.fromkeys(lanes, most))
    left.subtract((queue, task) for queue, task, _ in lines)
    found: list[Row] = []
    for queue, task, key in _keys(session, [lane for lane in lanes if left[lane] > 0], "", most):
        if key < start and left[queue, task] > 0:
            left[queue, task] -= 1
            found.append((queue, task, key))
    return found


def _deepening(  # noqa: PLR0917 - as its callers have them
    session: Session,
    now: int,
    request: LeaseRequest,
    statement: str,
    lines: Sequence[Row],
    running: dict[str, int],
    best: Iterable[_Candidate] = (),
) -> list[int]:
    """Few of each line at first: only where that was not enough is more looked at."""
    text, declined = batch(lines), batch(request.declined)
    simple = not (request.order is Order.BALANCED or request.queue_rooms or _rooms(request))
    depth = 1 + request.limit // max(len(lines), 1)
    depth = min(depth if simple else max(_SHALLOW, 2 * depth), request.limit)
    while True:
        query = SQL[statement](lines=text, limit=depth, declined=declined, now=now)
        found = _candidates(session.run(query))
        depths = Counter((each.queue, each.task, each.key) for each in found)
        cut = {line: number for line, number in depths.items() if number >= depth}
        if simple:
            taken, short = _in_turn(request, found, cut if depth < request.limit else {})
            if not short:
                return taken
            depth = min(4 * depth, request.limit)
            continue
        found = list({each.seq: each for each in (*best, *found)}.values())
        choice = _Choice(request, found, running, cut if depth < request.limit else {})
        if not choice.is_short:
            return choice.taken
        depth = request.limit


def _in_turn(
    request: LeaseRequest, candidates: list[_Candidate], cut: Iterable[tuple[str, str, str]]
) -> tuple[list[int], bool]:
    """The choice where nothing but the turns of the queues counts: the n-th job of a queue has its
    turn n steps after those that were served. And whether what was not read may come before it.
    """
    served = dict(request.served)
    turns: list[tuple[int, Rank]] = []
    last: dict[tuple[str, str, str], tuple[int, Rank]] = {}
    for each in sorted(candidates, key=_by_rank):
        turn = served[each.queue] = served.get(each.queue, 0) + 1
        place = last[each.queue, each.task, each.key] = turn, each.rank
        turns.append(place)
    turns.sort()
    taken = turns[: request.limit]
    # Behind the last job of a line that was cut there may be one that has the next turn.
    full = len(taken) == request.limit
    short = any(not full or (last[line][0] + 1, last[line][1]) < taken[-1] for line in cut)
    return [rank[-1] for _, rank in taken], short


def _rooms(request: LeaseRequest) -> dict[str, int]:
    """The room of the tasks that have less than the whole lease."""
    return {name: n for name, n in request.tasks.items() if n < request.limit}


def _running(session: Session, keys: set[str]) -> dict[str, int]:
    """The number of jobs of these fair keys that run in the fleet."""
    named = session.run(SQL["running_by_fair_key"](keys=batch(sorted(keys - {""}))))
    running: dict[str, int] = {key: number for key, number in named}  # noqa: C416 - typed rows
    if "" in keys:
        [[running[""]]] = session.run(SQL["share_of_nobody"]())
    return running


class _Choice:
    """The choice of a lease: in each step the queue that was served least gives its best job."""

    def __init__(
        self,
        request: LeaseRequest,
        candidates: list[_Candidate],
        running: dict[str, int],
        cut: dict[tuple[str, str, str], int],
    ) -> None:
        self.taken: list[int] = []
        self.is_short = False
        """True if a line was used up of which there may be more."""
        self._balances = request.order is Order.BALANCED
        self._running = dict(running)
        self._cut = cut
        self._served = dict(request.served)
        self._task_rooms = _rooms(request)
        self._queue_rooms = dict(request.queue_rooms)
        self._lines = self._sorted(candidates)
        self._take(request.limit)

    def _sorted(self, candidates: list[_Candidate]) -> dict[str, list[tuple[int, Rank, Any]]]:
        """Heaps of streams by queue: each the candidates of one key, the best one last."""
        streams: dict[tuple[str, str], list[_Candidate]] = defaultdict(list)
        for each in sorted(candidates, reverse=True):
            streams[each.queue, each.key].append(each)
        lines: dict[str, list[tuple[int, Rank, Any]]] = defaultdict(list)
        for (queue, key), stream in streams.items():
            lines[queue].append((self._running.get(key, 0), stream[-1].rank, stream))
        for line in lines.values():
            heapq.heapify(line)
        return dict(lines)

    def _take(self, limit: int) -> None:
        heads = [head for queue in self._lines if (head := self._turn(queue))]
        heapq.heapify(heads)
        while heads and len(self.taken) < limit and not self.is_short:
            *_, queue = heads[0]
            turn = self._turn(queue)
            if turn is None:
                heapq.heappop(heads)
            elif turn != heads[0]:
                # A turn only ever grows, so one that is not the least any more is put back.
                heapq.heapreplace(heads, turn)
            else:
                self._hand_out(queue)

    def _turn(self, queue: str) -> tuple[int, int, Rank, str] | None:
        """The place of a queue among the others, by its best job."""
        head = self._head(queue)
        return None if head is None else (self._served.get(queue, 0), *head, queue)

    def _head(self, queue: str) -> tuple[int, Rank] | None:
        """The best job of a queue: how many of its key run, and its rank."""
        line = self._lines[queue]
        while line and self._queue_rooms.get(queue, 1) > 0:
            running, rank, stream = line[0]
            best: _Candidate = stream[-1]
            now_running = self._running.get(best.key, 0) if self._balances else 0
            if self._task_rooms.get(best.task, 1) <= 0:
                self._drop(line)
            elif now_running != running:
                heapq.heapreplace(line, (now_running, rank, stream))
            else:
                return running, rank
        return None

    def _drop(self, line: list[tuple[int, Rank, Any]]) -> _Candidate:
        """Take the best one out of a line."""
        running, _, stream = line[0]
        best: _Candidate = stream.pop()
        at = (best.queue, best.task, best.key)
        if at in self._cut:
            self._cut[at] -= 1
            self.is_short |= self._cut[at] == 0
        if stream:
            heapq.heapreplace(line, (running, stream[-1].rank, stream))
        else:
            heapq.heappop(line)
        return best

    def _hand_out(self, queue: str) -> None:
        best = self._drop(self._lines[queue])
        self.taken.append(best.seq)
        self._served[queue] = self._served.get(queue, 0) + 1
        if self._balances:
            self._running[best.key] = self._running.get(best.key, 0) + 1
        if best.task in self._task_rooms:
            self._task_rooms[best.task] -= 1
        if queue in self._queue_rooms:
            self._queue_rooms[queue] -= 1
