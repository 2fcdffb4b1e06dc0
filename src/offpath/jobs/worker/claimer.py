"""Taking work: asking the store for as much as there is room for, when there may be some."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import MsgspecError

from offpath.jobs.values.run import Run, StoreTime, silent
from offpath.jobs.worker.shares import Shares
from offpath.model.lease import Leased, LeaseRequest, Order
from offpath.model.options import RunOptions, decode_run
from offpath.model.tally import Turn, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from offpath.jobs.worker.backpressure import Brake
    from offpath.jobs.worker.hand import Hand
    from offpath.jobs.worker.lines import OrderLine, OrderLines
    from offpath.jobs.worker.quarantine import Quarantine
    from offpath.model.job import LeasedJob
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

BATCH = 500
"""Most jobs asked for at once."""
DOUBT = 60.0
"""Seconds after a lease that went unanswered in which it may still be carried out: twice the time
limit of a statement."""
_NO_OPTIONS = RunOptions()
_SHUT = Turn(verdict=Verdict.DEGRADED, cause="no jobs may be taken: the lease is not held")
_SOONEST = 0.001
"""Seconds: a job that is due in no time must not make the loop spin until the store agrees."""


def _never() -> bool:
    """Nobody glances, so each turn asks."""
    return False


class Start(Protocol):
    """Begins a leased job."""

    def __call__(self, run: Run, /, *, alone: bool = False) -> None:
        """Begin it; ``alone``: when nothing else runs."""
        ...


class Claimer:
    """Leases jobs and hands them to ``start``.

    It asks when something may have changed: work was announced, a slot was freed after an answer
    that left work behind, a job has come due, or the poll interval has passed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hand: Hand,
        *,
        worker: str,
        lines: OrderLines,
        start: Start,
        brake: Brake,
        resting: Callable[[], Collection[str]],
        declined: Callable[[], tuple[str, ...]],
        quarantine: Quarantine,
    ) -> None:
        self._store = store
        self._clock = clock
        self._hand = hand
        self._worker = worker
        self._lines = lines
        self._shares = Shares()
        self._start = start
        self._brake = brake
        self._resting = resting
        self._declined = declined
        self._quarantine = quarantine
        self._freed = False
        """True if a slot was freed since the last answer."""
        self.expected: set[str] = set()
        """Jobs that begin here by themselves: an answer on its way brings them."""
        self.more = False
        """True if the last lease that was asked for left work behind."""
        self._left_behind = True
        """True if the store may have more than was taken: then a free slot is a reason to ask."""
        self.wake: Callable[[], None] = silent
        """Makes the next step come soon; set by whoever repeats it."""
        self.spared: Callable[[], bool] = _never
        """True if a glance has seen that there is nothing to lease; set by whoever glances."""
        self._doubt_until: float | None = None
        """The time until which an unanswered lease may still turn out to have been given."""
        self.open = False
        """True if jobs may be taken: this worker is registered and not stopping."""
        self.told = False
        """True if it was told to take none, since the worker stops or is to be quiet."""

        self.asking = False
        """True if the store is being asked right now: its answer may bring jobs."""
        self.left = math.inf
        """The number of jobs that are taken yet before none is."""

    def announce(self) -> None:
        """Work may be ready: ask soon, or as soon as there is room."""
        self._left_behind = True
        self._quarantine.announce()
        self.wake()

    def slot_freed(self) -> None:
        """Ask again if there was more than could be taken."""
        # Otherwise the answer would be empty: an idle fleet must not ask at each end of a job.
        self._freed = True
        if self._left_behind:
            self.wake()

    async def step(self) -> Turn | bool | float | None:
        """Ask once; returns when to ask again unbidden (True: at once, None: at the next poll).

        A worker whose slots are all in use does well: its heartbeat vouches for what runs in them.
        One that may not ask does not, although it cannot help it.
        """
        if not self.open:
            # What is announced meanwhile is not looked at, so the first turn after it asks.
            self._left_behind = True
            return Turn(verdict=Verdict.EMPTY) if self.told else _SHUT
        if self.left <= 0:
            return Turn(verdict=Verdict.EMPTY)
        # A worker without room asks nobody, so the user's function is not called for nothing.
        rest = await self._brake.rest() if self._hand.free or self._hand.joinable else 0.0
        if rest > 0:
            # Nobody looked, so a glance that saw nothing earlier must not spare the next lease.
            self._left_behind = True
            return Turn(verdict=Verdict.EMPTY, again=rest)
        if self._has_nothing():
            return Turn(verdict=Verdict.EMPTY)
        again, taken = await self.claim(waits=True)
        return again if taken else Turn(verdict=Verdict.EMPTY, again=again)

    @property
    def rests(self) -> bool:
        """True if nothing runs, and no job is known to wait for this worker."""
        return not (self._hand.busy or self._left_behind)

    def _has_nothing(self) -> bool:
        """True if a lease would bring nothing, as far as it is known here."""
        asks = self._left_behind or self._doubtful() or self._quarantine.expected
        return not asks and self.spared()

    async def claim(
        self, limit: int = BATCH, *, waits: bool = False
    ) -> tuple[bool | float | None, int]:
        """Take what there is room for; returns when to ask again, and how many came.

        A caller that ``waits`` asks again at that time, and needs no answer about all at once.
        """
        # Where no suspects are known of, other jobs come first: an idle worker would begin each job
        # a round trip later otherwise.
        known = self._quarantine.may_wait
        suspects = await self._claim_suspects(self._within(limit)) if known else 0
        again, taken = None, 0
        if not self._quarantine.occupied:
            again, taken = await self._claim_beside(self._within(limit, suspects), waits=waits)
        if not known:
            suspects = await self._claim_suspects(self._within(limit, taken))
        self.left -= taken + suspects
        if self._quarantine.occupied:
            # Nothing is taken beside a suspect. The slot that it frees is the reason to ask.
            self._left_behind = True
            return None, taken + suspects
        if again is not True and self._quarantine.expected:
            soon = max(self._quarantine.due_in(), _SOONEST)
            again = soon if again is None or again is False else min(again, soon)
        return again, taken + suspects

    def _within(self, limit: int, taken: int = 0) -> int:
        """The limit, or what is left to be taken at all."""
        return int(max(min(limit, self.left - taken), 0))

    async def _claim_suspects(self, limit: int) -> int:
        """Take suspects, if it is time to look for some; how many came."""
        quarantine = self._quarantine
        if not self.open or quarantine.occupied or quarantine.due_in() > 0:
            return 0
        # They begin only while nothing else runs: beside other jobs this is no more than a look.
        room = min(quarantine.room(), limit)
        rooms = self._hand.rooms_when_empty(self._resting())
        request = self._request_of(room, rooms, self._lines.queues, suspects_only=True)
        leased = await self._asked(request)
        quarantine.looked(more=leased.more, taken=len(leased.jobs))
        self._begin(leased, alone=True)
        return len(leased.jobs)

    async def _claim_beside(self, limit: int, *, waits: bool) -> tuple[bool | float | None, int]:
        """Take what there is room for beside what runs."""
        most = min(self._hand.free, limit, BATCH)
        if not (self.open and most):
            # It was not asked, so there may be something: the next free slot is a reason to ask.
            self._left_behind = True
            return None, await self._claim_to_join(limit)
        again, taken = await self._claim_in_turn(most, waits=waits)
        if self._left_behind or taken == most:
            taken += await self._claim_to_join(limit - taken)
        return again, taken

    async def _claim_in_turn(
        self, most: int, *, joining: bool = False, waits: bool = False
    ) -> tuple[bool | float | None, int]:
        """Take from one line after the other, until there is no room."""
        answers: list[bool | float | None] = []
        taken, behind = 0, False
        for line in self._lines.in_turn():
            left = most - taken
            request = self._request(left, line, waits=waits) if left > 0 else None
            if request is None:
                behind = True
                continue
            if joining:
                request = msgspec.structs.replace(request, tasks=self._hand.room_to_join)
            again, got = await self._claim(request, line)
            answers.append(again)
            taken += got
            behind = behind or self._left_behind
        # Each line has set it for itself, and the last one's answer says nothing of the others.
        self._left_behind = behind
        return _soonest(answers), taken

    async def _claim_to_join(self, limit: int) -> int:
        """Take what needs no slot, since it joins a call that waits for more; how many came."""
        rooms = self._hand.room_to_join
        most = min(sum(rooms.values()), limit, BATCH)
        if most <= 0 or not self.open:
            return 0
        behind = self._left_behind
        _, taken = await self._claim_in_turn(most, joining=True)
        self._left_behind = self._left_behind or behind
        return taken

    async def _claim(
        self, request: LeaseRequest, line: OrderLine
    ) -> tuple[bool | float | None, int]:
        most = request.limit
        # Before the question: work that is announced before its answer has come sets it again.
        self._left_behind = False
        adopted = await self._adopt(request) if self._doubtful() else 0
        if adopted:
            return True, adopted
        leased = await self._asked(request)
        taken = len(leased.jobs)
        self.more = leased.more
        # Before the jobs begin: one that ends at once frees a slot which this answer left empty.
        self._freed = False
        self._begin(leased)
        all_of_it = taken < most and not leased.more
        self._shares.took(leased.jobs, all_of_it=all_of_it)
        self._lines.took(line, leased.jobs, all_of_it=all_of_it)
        # A task at its limit was not asked for, or not any further: it may have more.
        filled = _fills_a_room(request, leased.jobs)
        self._left_behind = self._left_behind or leased.more or filled or self._hand.saturated
        if filled and self._freed:  # jobs that ended at once have made room again
            self.wake()
        return self._next(more=leased.more, due_in=leased.due_in), taken

    async def _asked(self, request: LeaseRequest) -> Leased:
        self.asking = True
        try:
            return await self._store.lease(request)
        except BaseException:
            self._left_behind = True
            # The lease may have been carried out although its answer is lost. Its jobs would then
            # run nowhere until the lease is over, so they are looked for.
            self._doubt_until = self._clock.monotonic() + DOUBT
            raise
        finally:
            self._answered()

    def _begin(self, leased: Leased, *, alone: bool = False) -> None:
        if leased.jobs:
            at = self._clock.monotonic()
            time = StoreTime(leased.now, at)
            for job in leased.jobs:
                self._start(self.run_of(job, time, at), alone=alone)

    def _answered(self) -> None:
        """The store is asked no more. Whoever stops may wait for just that, though no job came."""
        self.asking = False
        if not self.open:
            self._hand.changed.set()

    def _request(self, most: int, line: OrderLine, *, waits: bool) -> LeaseRequest | None:
        """The request of a line's next lease; None when there is no room for anything that could be
        had.
        """
        resting = self._resting()
        tasks = {name: room for name, room in self._hand.room(most).items() if name not in resting}
        rooms = self._hand.queue_rooms(most)
        if not tasks or (line.queues and not any(rooms.get(each, 1) for each in line.queues)):
            return None
        rooms.update(dict.fromkeys(line.skipped, 0))
        return self._request_of(most, (tasks, rooms), line.queues, order=line.order, waits=waits)

    def _request_of(
        self,
        most: int,
        rooms: tuple[dict[str, int], dict[str, int]],
        queues: tuple[str, ...],
        *,
        order: Order = Order.PRIORITY,
        suspects_only: bool = False,
        waits: bool = False,
    ) -> LeaseRequest:
        tasks, queue_rooms = rooms
        return LeaseRequest(
            worker=self._worker,
            limit=most,
            tasks=tasks,
            queues=queues,
            queue_rooms=queue_rooms,
            served=self._shares.served,
            order=order,
            declined=self._declined(),
            suspects_only=suspects_only,
            waits=waits,
        )

    def _doubtful(self) -> bool:
        return self._doubt_until is not None and self._clock.monotonic() < self._doubt_until

    async def _adopt(self, request: LeaseRequest) -> int:
        """Start what an unanswered lease handed to us, as far as there is room for it."""
        # Before asking: they may end meanwhile.
        known = {job.id for job in self._hand.jobs()} | self.expected
        self.asking = True
        try:
            now = await self._store.ping()
            held = await self._store.held(self._worker)
        finally:
            self._answered()
        at = self._clock.monotonic()
        time = StoreTime(now, at)
        strays = [job for job in held if job.id not in known]
        room, queues = dict(request.tasks), dict(request.queue_rooms)
        taken = 0
        for job in strays:
            free = room.get(job.task, 0) > 0 and queues.get(job.queue, 1) > 0
            if free and self._hand.free:
                room[job.task] -= 1
                queues[job.queue] = queues.get(job.queue, self._hand.capacity) - 1
                taken += 1
                alone = self._quarantine.suspects(job)
                self._start(self.run_of(job, time, at), alone=alone)
        return taken

    def _next(self, *, more: bool, due_in: float | None) -> bool | float | None:
        if more and self._hand.free:
            return True
        return None if due_in is None else max(due_in, _SOONEST)

    def run_of(self, job: LeasedJob, time: StoreTime, at: float) -> Run:
        """An attempt of a leased job."""
        fault: Exception | None = None
        try:
            options = decode_run(job.options)
        except MsgspecError as error:
            options, fault = _NO_OPTIONS, error
        task = self._hand.tasks[job.task]
        if options.of_task:
            options = task.own_options
        run = Run(job, task, options, store_time=time, leased_at=at)
        run.fault = fault
        return run


def _fills_a_room(request: LeaseRequest, jobs: Sequence[LeasedJob]) -> bool:
    """True if a task or queue was given as many as there is room for here, which is fewer than were
    wanted in all: there may be more of it.
    """
    tasks = {name for name, room in request.tasks.items() if room < request.limit}
    if not jobs or not (tasks or request.queue_rooms):
        return False
    of_tasks, of_queues = Counter(job.task for job in jobs), Counter(job.queue for job in jobs)
    return any(of_tasks[name] >= request.tasks[name] for name in tasks) or any(
        of_queues[name] >= room > 0 for name, room in request.queue_rooms.items()
    )


def _soonest(answers: list[bool | float | None]) -> bool | float | None:
    """The first of the times at which to ask again; True is at once, None at the next poll."""
    if any(one is True for one in answers):
        return True
    return min((one for one in answers if one is not None), default=None)
