"""The front of the ready jobs: where the next lease of a worker begins to read.

Each job that was handed out leaves dead entries in the indexes, which stay until a vacuum has
removed them; where none can (autovacuum is off, or a transaction elsewhere stays open), each look
from the beginning walks over all of them. So a worker that works through a backlog looks from the
beginning now and then, and in between goes on behind the last job that it took of each lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from offpath.model.job import LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.store.breadth import Breadth
from offpath.store.hints import Hint
from offpath.store.postgres.steps import NEVER

LOOK: Final = 1.0
"""Seconds after which a look from the beginning is due, whatever is known."""
_CHEAP: Final = 0.02
"""Seconds. A look that takes no longer is made whenever something may have come in; a dearer one at
most for a tenth of the time."""
_SHARE: Final = 10
_FIRST: Final = ("", "")

Lane = tuple[str, str]
"""A queue and a task."""


class Survey(msgspec.Struct, frozen=True):
    """The lanes that a look has found."""

    lanes: list[Lane] | None = None
    """The lanes that may be leased from; None: there are none."""
    last: tuple[str, str] | None = None
    """The task and queue behind which the next look goes on; None: it was the end."""


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
    """

    __slots__ = (
        "_asked",
        "_clock",
        "_cost",
        "_due_at",
        "_heard",
        "_lanes",
        "_looked_at",
        "_seen",
        "breadth",
        "partial",
        "start",
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes: dict[Lane, Mark] = {}
        self._asked: _Asked | None = None
        self._looked_at = self._cost = 0.0
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

    def rest(self, due_in: float | None) -> None:
        """Take in that a lease has come to the end of what there is, without a look at lanes."""
        self._due_at = None if due_in is None else self._clock() + due_in

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
        now = self._clock()
        found = Survey() if survey is None else _survey(survey)
        self.partial = found.last is not None or not self.at_start
        self.start = found.last or _FIRST
        lanes = () if self.partial or found.lanes is None else found.lanes
        self._lanes = {lane: Mark(*lane) for lane in lanes}
        self._asked = _asked_for(request)
        self._looked_at, self._cost, self._seen = now, now - begun.at, begun.heard
        self._due_at = None if due_in is None else now + due_in
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
            self._lanes = {}

    def _fits(self, request: LeaseRequest) -> bool:
        if self._asked is None:
            return False
        worker, queues, tasks = self._asked
        return (request.worker, request.queues) == (worker, queues) and tasks >= {
            task for task, room in request.tasks.items() if room > 0
        }


def _asked_for(request: LeaseRequest) -> _Asked:
    tasks = frozenset(task for task, room in request.tasks.items() if room > 0)
    return request.worker, request.queues, tasks
