"""Handing out work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from offpath.model.job import LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.store.hints import Hints
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.few import MOST, Few, FewBounds
from offpath.store.postgres.front import Front, Mark
from offpath.store.postgres.handouts import (
    ANNOUNCE,
    CANDIDATES,
    JOB,
    RUN_AT,
    SURVEY,
    shape_of,
)
from offpath.store.postgres.order import KeyTurns, plain, take_steps
from offpath.store.postgres.steps import NEVER, from_micros, moment, to_json
from offpath.store.programs import suspects
from offpath.store.programs.dialect import Announced, Rows, Send, Steps, ask
from offpath.store.sql import Catalogue, Query

# Jobs that come due together are made ready over several leases: no lease pays for all.
PROMOTED_AT_ONCE: Final = 500
_MOST: Final = 8


class Reach:
    """The number of candidates that a lease reads for each job it wants.

    One is enough while nobody else takes the same jobs. A lease that came out short doubles it, a
    full one halves it, so that a lone worker does not pay for a crowd.
    """

    def __init__(self) -> None:
        self._factor = 1

    def of(self, limit: int) -> int:
        """Candidates for ``limit`` jobs; one more tells whether there are more."""
        return limit * self._factor + 1

    def learn(self, *, short: bool) -> None:
        """Take in how the last lease went."""
        self._factor = min(self._factor * 2, _MOST) if short else max(self._factor // 2, 1)


class Leases:
    """The leases of one store, and what each has learned for the next.

    With ``looks_only`` each begins to read at the first job: where time is given and may stand
    still, nobody can tell how old a mark is. ``few`` is the number of ready jobs up to which one
    may be by the statement for few jobs; 0: none is. ``hints`` are heard from the first lease on.
    """

    def __init__(
        self, hints: Hints | None = None, *, looks_only: bool = False, few: int = MOST
    ) -> None:
        self.front = Front()
        self._hints = hints
        self.few = Few(few)
        self._looks_only = looks_only
        self._reach = Reach()
        self._turns = KeyTurns()

    async def lease(
        self, request: LeaseRequest, once: Callable[[LeaseRequest], Awaitable[Leased]]
    ) -> Leased:
        """Lease by ``once`` until there is enough or nothing more.

        One answer may be short of both: behind the marks is no more, a look ends before the last
        lane, or few candidates of each were read.
        """
        if self._hints is not None:  # not before: an app that only enqueues has no use for it
            self._hints.subscribe(self.front.hear)
            self._hints = None
        rest, jobs, due_in = request, list[LeasedJob](), None
        ends = 1 if self.front.at_start else 2  # a round that begins in the middle ends there
        while True:
            marked = (self._places(rest) or self._marks(rest)) is not None
            refusals = self.few.refusals
            leased = await once(rest)
            marked = marked or self.few.refusals > refusals  # nobody looked at all
            jobs += leased.jobs
            due_in = due_in if leased.due_in is None else leased.due_in
            ends -= not marked and self.front.at_start
            rest = rest.without(leased.jobs)
            goes_on = leased.jobs or marked or (self.front.partial and ends > 0)
            if not (leased.more and goes_on and any(rest.tasks.values())) or rest.limit <= 0:
                break
        nothing = self.front.partial and not jobs  # in any lane
        if len(jobs) > len(leased.jobs):  # of several answers
            jobs.sort(key=lambda job: (-job.priority, job.run_at, job.id))
        return replace(leased, jobs=tuple(jobs), more=leased.more and not nothing, due_in=due_in)

    def steps(
        self,
        request: LeaseRequest,
        now: datetime | None,
        announced: Announced | None = None,
        *,
        sql: Catalogue,
    ) -> Steps[Leased]:
        """Make due jobs ready, then hand out the best."""
        places = self._places(request)
        if places is not None:
            return (yield from self._behind_places(request, places, now, announced, sql=sql))
        bounds = self._few(request)
        if bounds is not None:
            return (yield from self._all(request, bounds, now, announced, sql=sql))
        promote = sql["promote"](now=moment(now), limit=PROMOTED_AT_ONCE)
        if request.suspects_only:
            d = PostgresDialect(sql, now)
            reserved, more = yield from suspects.apart(
                d, request, lambda ids: _take(d, request, ids), job=JOB, first=(promote,)
            )
            return replace(_leased(request, reserved, announced, more=more), due_in=None)
        if not plain(request):
            limit = max(request.limit, 0)
            taken, choice = yield from take_steps(
                request, limit, promote, now, self._turns, sql=sql
            )
            return _leased(request, taken, announced, more=choice.more)
        marks = self._marks(request)
        if marks is not None:
            return (yield from self._behind(request, marks, now, announced, sql=sql))
        return (yield from self._look(request, promote, now, announced, sql=sql))

    def _all(
        self,
        request: LeaseRequest,
        bounds: FewBounds,
        now: datetime | None,
        announced: Announced | None,
        *,
        sql: Catalogue,
    ) -> Steps[Leased]:
        """Lease all that is ready, if that is few."""
        begun = self.front.begin()
        query = sql["lease_few"](
            now=moment(now),
            worker=request.worker,
            few=bounds.jobs,
            scarce=to_json(bounds.scarce),
            room=bounds.room,
            tasks=to_json([task for task, room in request.tasks.items() if room > 0]),
            queues=to_json(request.queues),
        )
        rows = yield from ask(query, last=True)
        leased, candidates = _leased(request, rows, announced), rows[0][CANDIDATES]
        if candidates is None:
            self.few.refused()
            return replace(leased, more=True, due_in=None)
        self.few.answered()
        survey = rows[0][SURVEY]
        self.front.rest(request, leased.jobs, _run_ats(rows), survey, begun, leased.due_in)
        return replace(leased, more=candidates > len(leased.jobs))

    def _look(
        self,
        request: LeaseRequest,
        promote: Query,
        now: datetime | None,
        announced: Announced | None,
        *,
        sql: Catalogue,
    ) -> Steps[Leased]:
        """Lease from the beginning."""
        self.few.passed_over()
        begun = self.front.begin()
        # jobs that are due are ready, whoever takes them
        queries = promote, self._query(request, None, now, sql)
        _, rows = yield Send(queries, last=True, severable=True)
        leased = self._learned(request, rows, announced)
        partial = self.front.looked(request, rows[0][SURVEY], begun, leased.due_in)
        if partial:
            self.front.breadth.learn(short=len(leased.jobs) < request.limit)
        self._note(request, rows, leased)
        return replace(leased, more=leased.more or partial)

    def _behind(
        self,
        request: LeaseRequest,
        marks: list[Mark],
        now: datetime | None,
        announced: Announced | None,
        *,
        sql: Catalogue,
    ) -> Steps[Leased]:
        """Lease what is behind the marks."""
        leased, rows = yield from self._read_behind(request, marks, now, announced, sql=sql)
        self._note(request, rows, leased)
        if self._places(request) is not None:  # the end of a backlog where a look is dear
            return replace(leased, due_in=self.front.look_in)
        return replace(leased, more=True)  # nobody looked before the marks

    def _behind_places(
        self,
        request: LeaseRequest,
        places: list[Mark],
        now: datetime | None,
        announced: Announced | None,
        *,
        sql: Catalogue,
    ) -> Steps[Leased]:
        """Lease what is behind the places of emptied lanes.

        There may be others, and the next look finds them: who waits is told when it is due.
        """
        begun = self.front.begin()
        leased, rows = yield from self._read_behind(request, places, now, announced, sql=sql)
        more = self.front.took_behind_places(
            leased.jobs, _run_ats(rows), begun, wanted=request.limit
        )
        return replace(leased, more=more, due_in=None if more else self.front.look_in)

    def _read_behind(
        self,
        request: LeaseRequest,
        marks: list[Mark],
        now: datetime | None,
        announced: Announced | None,
        *,
        sql: Catalogue,
    ) -> Steps[tuple[Leased, Rows]]:
        if len(marks) == 1:
            # what others hold is passed over, so there is no reach to be learned
            rows = yield from ask(_of_lane(request, marks[0], now, sql), last=True)
            return _leased(request, rows, announced), rows
        rows = yield from ask(self._query(request, marks, now, sql), last=True)
        return self._learned(request, rows, announced), rows

    def _few(self, request: LeaseRequest) -> FewBounds | None:
        """The bounds of the statement for few jobs; None: another one is due."""
        # A backlog has its marks, and where a job is known to be due somebody has to promote it.
        if not plain(request) or request.suspects_only or not self.front.rests:
            return None
        return self.few.within(request)

    def _places(self, request: LeaseRequest) -> list[Mark] | None:
        if self._looks_only or not (request.waits and plain(request)) or request.suspects_only:
            return None
        return self.front.places(request)

    def _marks(self, request: LeaseRequest) -> list[Mark] | None:
        if self._looks_only or not plain(request) or request.suspects_only:
            return None
        return self.front.marks(request)

    def _query(
        self,
        request: LeaseRequest,
        marks: list[Mark] | None,
        now: datetime | None,
        sql: Catalogue,
    ) -> Query:
        limit = max(request.limit, 0)
        from_task, from_queue = self.front.start
        behind = from_queue if self.front.at_start else from_queue + "\x01"
        return sql["lease"](
            now=moment(now),
            worker=request.worker,
            limit=limit,
            reach=self._reach.of(limit),
            tasks=to_json({task: min(room, limit) for task, room in request.tasks.items()}),
            queues=to_json(request.queues),
            served=to_json(request.served),
            marks=None if marks is None else to_json(marks),
            lanes=self.front.breadth.lanes,
            from_task=from_task,
            from_queue=behind,
        )

    def _learned(self, request: LeaseRequest, rows: Rows, announced: Announced | None) -> Leased:
        _, candidates, *_ = rows[0]
        leased = _leased(request, rows, announced)
        # Fewer than there were candidates: others have taken them meanwhile. A lack of candidates
        # is not a crowd, and must not make the next lease read more.
        self._reach.learn(short=len(leased.jobs) < min(request.limit, candidates))
        return replace(leased, more=candidates > len(leased.jobs))

    def _note(self, request: LeaseRequest, rows: Rows, leased: Leased) -> None:
        self.front.took(leased.jobs, _run_ats(rows), wanted=request.limit)


def _run_ats(rows: Rows) -> list[int]:
    """The times at which the jobs of a lease were due."""
    return [row[RUN_AT] for row in rows if row[JOB] is not None]


def _of_lane(request: LeaseRequest, mark: Mark, now: datetime | None, sql: Catalogue) -> Query:
    return sql["lease_behind"](
        now=moment(now),
        worker=request.worker,
        limit=max(min(request.limit, request.tasks[mark.task]), 0),
        queue=mark.queue,
        task=mark.task,
        priority=mark.priority,
        run_at=mark.run_at,
        id=mark.id,
    )


def _take(d: PostgresDialect, request: LeaseRequest, ids: Sequence[str]) -> Steps[Rows]:
    """Hand out suspects. Sent without any, too: its answer tells the time."""
    query = d.sql["take_chosen"](
        now=d.now,
        ids=d.batch(ids),
        worker=request.worker,
        tasks=d.json(request.tasks),
        queues=d.batch(request.queues),
        begun=False,
    )
    return (yield from ask(query, last=not ids))


def _leased(
    request: LeaseRequest, rows: Rows, announced: Announced | None, *, more: bool = False
) -> Leased:
    """The answer, from the rows of a statement that leased."""
    now, _, due_at, *_ = rows[0]
    if announced is not None:
        announced.hear(row[ANNOUNCE] for row in rows)
    return Leased(
        jobs=tuple(shape_of(request.worker).all(row for row in rows if row[JOB] is not None)),
        now=from_micros(now),
        more=more,
        due_in=None if due_at is None or due_at == NEVER else (due_at - now) / 1_000_000,
    )


def held_steps(worker: str, *, sql: Catalogue) -> Steps[list[LeasedJob]]:
    """The jobs that a worker holds."""
    rows = yield from ask(sql["held"](worker=worker), last=True)
    return shape_of(worker).all(rows)
