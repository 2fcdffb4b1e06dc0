"""The front of the ready jobs: where the next lease of a worker begins to read.

Each job that was handed out leaves dead entries in the indexes, which stay until a vacuum has
removed them; where none can (autovacuum is off, or a transaction elsewhere stays open), each look
from the beginning walks over all of them. So a worker that works through a backlog looks from the
beginning now and then, and in between goes on behind the last job that it took of each lane.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.store.breadth import MOST, Breadth
from offpath.store.hints import Hint
from offpath.store.postgres.steps import NEVER

LOOK: Final = 1.0
"""Seconds after which a look from the beginning is due, whatever is known."""
_CHEAP: Final = 0.02
"""Seconds. A look that takes no longer is made whenever something may have come in; a dearer one at
most for a tenth of the time."""
_SHARE: Final = 10
DEAR: Final = 0.05
"""Seconds of the server, of a look behind which the places of emptied lanes are kept."""
_FIRST: Final = ("", "")

Lane = tuple[str, str]
"""A queue and a task."""


class Survey(msgspec.Struct, frozen=True):
    """The lanes that a look has found."""

    lanes: list[Lane] | None = None
    """The lanes that may be leased from; None: there are none."""
    last: tuple[str, str] | None = None
    """The task and queue behind which the next look goes on; None: it was the end."""
    took: float = 0.0
    """Seconds that it took the server, without the way there."""


class Mark(msgspec.Struct, frozen=True):
    """A lane, and the place of the last job that was taken there, if there was one."""

    queue: str
    task: str
    priority: int | None = None
    run_at: int | None = None
    id: str | None = None


class Begun(NamedTuple):
    """The beginning of a look."""

    at: float
    heard: int
    """The hints that had come by then."""


_survey: Final = msgspec.json.Decoder(Survey).decode
_Asked = tuple[str, tuple[str, ...], frozenset[str]]


class Front:
    """The knowledge of the last look from the beginning, for the worker that made it.

    What has come in before a mark is found by the next look: at once after anything that this
    process knows of, within a second otherwise. It waits only where a backlog is behind the mark.

    A lane that is empty is forgotten, and found again from the beginning. Where that is dear, as
    beside a snapshot of another session for which all dead entries are kept, its place is kept: a
    worker that waits for work asks behind it first. What comes in before a place or in another
    lane is found by a look, which is due a second after the last one. A glance that saw no ready
    job at all counts as a look. One that saw some makes it due, unless they are had by their place.
    """

    __slots__ = (
        "_asked",
        "_clock",
        "_cost",
        "_dear",
        "_due_at",
        "_found_at",
        "_glimpsed",
        "_heard",
        "_lanes",
        "_looked_at",
        "_places",
        "_seen",
        "breadth",
        "partial",
        "start",
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes: dict[Lane, Mark] = {}
        self._places: dict[Lane, Mark] = {}
        self._glimpsed = self._dear = False
        self._asked: _Asked | None = None
        self._looked_at = self._cost = self._found_at = 0.0
        self._due_at: float | None = None
        self._heard = self._seen = 0
        self.breadth = Breadth()
        """The lanes that one look finds; behind them the next look goes on."""
        self.start = _FIRST
        """The task and queue behind which the next look begins."""
        self.partial = False
        """True if the last look did not see all lanes."""

    @property
    def at_start(self) -> bool:
        """True if the next look begins at the first lane."""
        return self.start == _FIRST

    @property
    def rests(self) -> bool:
        """True if the last lease came to the end of what there was, and nothing is due since."""
        if self._lanes or self.partial:
            return False
        return self._due_at is None or self._clock() < self._due_at

    def hear(self, hint: Hint) -> None:
        """Take in that jobs may be ready."""
        self._heard += hint is Hint.WORK

    def marks(self, request: LeaseRequest) -> list[Mark] | None:
        """The places behind which to read; None: look from the beginning."""
        if not self._lanes or not self._fits(request):
            return None
        now = self._clock()
        age = now - self._looked_at
        changed = self._heard != self._seen or (self._due_at is not None and now >= self._due_at)
        if age >= LOOK or (changed and (self._cost <= _CHEAP or age >= _SHARE * self._cost)):
            return None
        return [mark for mark in self._lanes.values() if request.tasks.get(mark.task, 0) > 0]

    def begin(self) -> Begun:
        """Begin a look: what is told from here on may not have been seen by it."""
        return Begun(self._clock(), self._heard)

    def looked(
        self, request: LeaseRequest, survey: str | None, begun: Begun, due_in: float | None
    ) -> bool:
        """Take in a look from the beginning; whether there are other lanes."""
        found = Survey() if survey is None else _survey(survey)
        self.partial = found.last is not None or not self.at_start
        self.start = found.last or _FIRST
        lanes = () if self.partial or found.lanes is None else found.lanes
        self._lanes = {lane: Mark(*lane) for lane in lanes}
        self._asked = _asked_for(request)
        self._ended(found, begun, due_in)
        return self.partial

    def took(self, jobs: Iterable[LeasedJob], places: Iterable[int], *, wanted: int) -> None:
        """Take in what a lease gave, best first, with the times at which they were due.

        One that gave less than wanted has come to the end of what is known.
        """
        for job, run_at in zip(jobs, places, strict=True):
            wanted -= abs(run_at) != NEVER  # a time that no statement can be given
            if (lane := (job.queue, job.task)) in self._lanes:
                self._lanes[lane] = Mark(*lane, job.priority, run_at, job.id)
        if wanted > 0:
            self._keep(mark for mark in self._lanes.values() if mark.id is not None)
            self._lanes = {}

    # -- where looks are dear --------------------------------------------------------------------

    def rest(
        self,
        request: LeaseRequest,
        jobs: Iterable[LeasedJob],
        places: Iterable[int],
        survey: str,
        begun: Begun,
        due_in: float | None,
    ) -> None:
        """Take in a look that had all there was, which were few, and found no lanes."""
        self._asked = _asked_for(request)
        self._ended(_survey(survey), begun, due_in)
        self._keep(
            Mark(job.queue, job.task, job.priority, run_at, job.id)
            for job, run_at in zip(jobs, places, strict=True)
            if abs(run_at) != NEVER
        )

    def places(self, request: LeaseRequest) -> list[Mark] | None:
        """The places of emptied lanes behind which to read first; None: look."""
        if not self._places or not self.rests or not self._fits(request):
            return None
        if self._clock() - self._looked_at >= LOOK:
            return None
        return [m for m in self._places.values() if request.tasks.get(m.task, 0) > 0] or None

    def took_behind_places(
        self, jobs: Sequence[LeasedJob], places: Iterable[int], begun: Begun, *, wanted: int
    ) -> bool:
        """Take in a lease behind places; whether a look is due at once.

        A full one has met a backlog. What was announced before one that found jobs was these.
        """
        self._lanes = self._places.copy()
        self.took(jobs, places, wanted=wanted)
        if jobs:
            self._seen, self._glimpsed, self._found_at = begun.heard, False, self._clock()
            return bool(self._lanes)
        dear = self._clock() - self._looked_at < _SHARE * self._cost
        if not self._glimpsed and (dear or self._heard == self._seen):
            return False
        self._looked_at = -math.inf
        return True

    @property
    def look_in(self) -> float:
        """Seconds until the next look, for a lease that read no more than what is behind places."""
        at = self._looked_at + LOOK
        return max((at if self._due_at is None else min(at, self._due_at)) - self._clock(), 0.0)

    def glanced(self, begun: Begun, *, ready: bool) -> None:
        """Take in whether a glance, which leases nothing, saw any job ready.

        It may have been one that was leased while the glance was on its way.
        """
        self._glimpsed = ready and begun.at >= self._found_at
        if not ready and self._places and self._looked_at < begun.at:
            self._looked_at, self._seen = begun.at, begun.heard

    def _keep(self, marks: Iterable[Mark]) -> None:
        if self._dear:
            for mark in marks:
                lane = mark.queue, mark.task
                self._places[lane] = max(self._places.get(lane, mark), mark, key=_order)
        if len(self._places) > MOST:  # as many steps of one lease
            self._places = {}

    def _ended(self, found: Survey, begun: Begun, due_in: float | None) -> None:
        """Take in that a look has ended. Where it was cheap nothing is spared by places."""
        now = self._clock()
        self._looked_at, self._cost, self._seen = now, now - begun.at, begun.heard
        self._due_at = None if due_in is None else now + due_in
        self._glimpsed, self._dear = False, found.took > DEAR
        if not self._dear:
            self._places = {}

    def _fits(self, request: LeaseRequest) -> bool:
        if self._asked is None:
            return False
        worker, queues, tasks = self._asked
        return (request.worker, request.queues) == (worker, queues) and tasks >= {
            task for task, room in request.tasks.items() if room > 0
        }


def _order(mark: Mark) -> tuple[int, int, str]:
    """The order of jobs in a lane."""
    return -(mark.priority or 0), mark.run_at or 0, mark.id or ""


def _asked_for(request: LeaseRequest) -> _Asked:
    tasks = frozenset(task for task, room in request.tasks.items() if room > 0)
    return request.worker, request.queues, tasks
