"""The jobs that a worker holds: in how many slots, with room for what."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from offpath.jobs.values.run import Call, Run
    from offpath.jobs.values.runnable import Runnable
    from offpath.model.job import LeasedJob


STUCK = 1.0
"""Seconds for which an end may go unrecorded before ends count as load."""
DEEPEST = 100
"""Handlers of a task that may wait for jobs beyond as many as there are slots: so deep may a task
wait for itself."""


class Hand:
    """The jobs of one worker. A *slot* is taken while a handler runs; a job is *held* until its
    end is recorded, which is a little longer.
    """

    def __init__(
        self,
        capacity: int,
        tasks: Mapping[str, Runnable],
        queue_limits: Mapping[str, int] | None = None,
    ) -> None:
        self.capacity = capacity
        self.tasks = tasks
        self._queue_limits = dict(queue_limits or {})
        self.changed = asyncio.Event()
        """Set whenever a slot was freed or a job was let go; cleared by whoever waits for that."""
        # Ends are written in batches, so short jobs are held for longer than they run. The bound is
        # what a worker may lose to another one when it dies before their commit.
        self._most_held = max(2 * capacity, 1_000)
        self.unrecorded_for: Callable[[], float] = lambda: 0.0
        """For how many seconds the oldest end has not been recorded; set by whoever records
        them.
        """
        self._held: dict[str, Run] = {}
        self._stale: set[Run] = set()
        self.ahead = 0
        """The number of jobs that may be taken beyond the slots: they wait for one."""
        self._waiting: deque[Run] = deque()
        self.joinable: dict[str, int] = {}
        """Batch task → how many jobs the call takes that waits for more of it."""
        self._together = 0
        """The number of jobs that are part of a call and have not ended."""
        self._aside: dict[Run | Call, Run] = {}
        """Handlers that wait for other jobs, and have given back their slots meanwhile."""
        self._aside_by_task: Counter[str] = Counter()
        self._aside_by_queue: Counter[str] = Counter()
        self._busy = 0
        self._busy_by_task: Counter[str] = Counter()
        self._busy_by_queue: Counter[str] = Counter()
        self.peak = 0
        """The most slots that were in use at once."""

    def __len__(self) -> int:
        """The number of jobs that are held."""
        return len(self._held) + len(self._stale)

    @property
    def busy(self) -> int:
        """The number of slots in use."""
        return self._busy

    @property
    def free(self) -> int:
        """The number of further jobs that can be taken; fewer than there are free slots when ends
        pile up.
        """
        slots = self.capacity + self.ahead - self._busy
        # While ends are not taken they are load: more jobs would only wait for their own.
        stuck = self.unrecorded_for() > STUCK
        most = min(2 * self.capacity, self._most_held) if stuck else self._most_held
        return max(min(slots, most - self._piled_up), 0)

    @property
    def room_to_join(self) -> dict[str, int]:
        """The number of jobs of each batch task that can be taken without a slot."""
        # Joining takes no slot, and is bounded by what may be lost with this worker all the same.
        return {} if self._piled_up >= self._most_held else dict(self.joinable)

    @property
    def _piled_up(self) -> int:
        # A job that waits for another is not part of the load that it waits behind.
        return len(self) - self._together - len(self._aside)

    def room(self, most: int) -> dict[str, int]:
        """The number of jobs of each task that may run now, at most ``most``; tasks without room
        are left out.
        """
        room: dict[str, int] = {}
        for name, task in self.tasks.items():
            limit = task.concurrency
            free = most if limit is None else min(limit - self._busy_by_task[name], most)
            if task.batch is not None:  # each slot is for a whole call
                free = self.joinable.get(name, 0) + task.batch.size * max(free, 0)
                free = min(free, most)
            free = min(free, self._most_beside_waits(name, most))
            if free > 0:
                room[name] = free
        return room

    def _most_beside_waits(self, task: str, most: int) -> int:
        """The number of further jobs of a task that may run, when some of it wait for jobs that
        need slots too.

        While as many wait as there are slots, others come first. Only with every slot free one more
        begins at a time: the job that is waited for may be of the same task.
        """
        aside = self._aside_by_task[task]
        if aside < self.capacity:
            return most
        return 0 if self._busy or aside >= self.capacity + DEEPEST else 1

    def queue_rooms(self, most: int) -> dict[str, int]:
        """The number of jobs of each queue that may run now, at most ``most``; others have no limit
        here.
        """
        busy = self._busy_by_queue
        return {
            name: max(min(limit - busy[name], most), 0)
            for name, limit in self._queue_limits.items()
        }

    def rooms_when_empty(self, resting: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The number of jobs of each task, and of each queue that has a limit, that may run while
        nothing does.
        """
        tasks = {
            name: self.capacity if task.concurrency is None else task.concurrency
            for name, task in self.tasks.items()
            if name not in resting
        }
        return tasks, dict(self._queue_limits)

    @property
    def saturated(self) -> bool:
        """True if some task or queue has no room, although slots may be free."""
        if 0 in self.queue_rooms(1).values():
            return True
        busy = self._busy_by_task
        return any(
            task.concurrency is not None and busy[name] >= task.concurrency
            for name, task in self.tasks.items()
        )

    def overdrawn(self, run: Run) -> bool:
        """True if a taken run is more than its task may have here at once."""
        limit = run.task.concurrency
        return limit is not None and self._busy_by_task[run.job.task] > limit

    def take(self, run: Run) -> Run | None:
        """Take a leased job into a slot.

        Returns the older run of the same job, if one is still here: its lease was lost without our
        noticing, otherwise the store would not have handed the job out again.
        """
        older = self._held.get(run.job.id)
        if older is not None:
            # Its handler may still run and use its slot, so it is counted until it ends.
            self._stale.add(older)
        self._held[run.job.id] = run
        self._busy += 1
        self._busy_by_task[run.job.task] += 1
        if run.job.queue in self._queue_limits:
            self._busy_by_queue[run.job.queue] += 1
        self.peak = max(self.peak, self._busy)
        return older

    def wait(self, run: Run) -> bool:
        """Let a taken run wait if every slot is in use; returns whether it must."""
        # Waiting runs are counted as busy, so that no more are leased in their place.
        if self._busy - len(self._waiting) <= self.capacity:
            return False
        self._waiting.append(run)
        return True

    def next_waiting(self) -> Run | None:
        """The run that has waited longest, if there is a slot for it now."""
        if self._waiting and self._busy - len(self._waiting) < self.capacity:
            return self._waiting.popleft()
        return None

    @property
    def oldest_waiting(self) -> Run | None:
        """The run that has waited longest for a slot."""
        return self._waiting[0] if self._waiting else None

    def give_back(self) -> list[Run]:
        """Every run that waits for a slot; none of them waits any longer."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    # -- handlers that wait for other jobs --------------------------------------------------------

    def step_aside(self, run: Run) -> bool:
        """Give back the slot of a handler that waits for another job; False if it has none now.

        What its task and its queue may have at once it goes on to use: the handler will go on.
        """
        call = run.batch or run
        if run.over or call in self._aside:
            return False
        self._aside[call] = run
        self._aside_by_task[run.job.task] += 1
        self._aside_by_queue[run.job.queue] += 1
        self._busy -= 1
        self.changed.set()
        return True

    def come_back(self, run: Run) -> None:
        """Take a slot for a handler that has waited, be one free or not."""
        if self._no_longer_aside(run):
            self._busy += 1
            self.peak = max(self.peak, self._busy)

    def _no_longer_aside(self, run: Run) -> bool:
        first = self._aside.pop(run.batch or run, None)
        if first is None:
            return False
        self._aside_by_task[first.job.task] -= 1
        self._aside_by_queue[first.job.queue] -= 1
        return True

    @property
    def aside(self) -> Collection[Run]:
        """The first run of each handler's call that waits for another job."""
        return self._aside.values()

    @property
    def crowded(self) -> bool:
        """True if a task or queue has as many waiting handlers as it may have."""
        return any(self._full_of_waits(name) for name in self._aside_by_task) or any(
            self._aside_by_queue[name] >= limit for name, limit in self._queue_limits.items()
        )

    def _full_of_waits(self, task: str) -> bool:
        limit = self.tasks[task].concurrency
        most = self.capacity + DEEPEST
        return self._aside_by_task[task] >= (most if limit is None else min(limit, most))

    def shut_out(self, task: str, queue: str) -> str | None:
        """The reason for which a job begins only when a wait has ended, if it has one."""
        if task in self.tasks and self._full_of_waits(task):
            return f"{self._aside_by_task[task]} handlers of that task wait here, and no more may"
        limit = self._queue_limits.get(queue)
        if limit is not None and self._aside_by_queue[queue] >= limit:
            return f"{limit} handlers of queue {queue!r} wait here, which is all that it may have"
        return None

    def free_slot(self, run: Run) -> None:
        """Free the slot of a run whose handler has ended; of a batch, that of its last one."""
        if run.batch is None:
            self._free_slot(run)
        else:
            self._together -= 1
            run.batch.left -= 1
            if run.batch.left == 0:
                self._free_slot(run)
        if run.job.queue in self._queue_limits:
            self._busy_by_queue[run.job.queue] -= 1
        self.changed.set()

    def joined(self) -> None:
        """Count a run that is part of a call from now on."""
        self._together += 1

    def share_slot(self, run: Run) -> None:
        """Free the slot of a run that joins a call which has one."""
        self._free_slot(run)
        self.joined()

    def _free_slot(self, run: Run) -> None:
        if not self._no_longer_aside(run):
            self._busy -= 1
        self._busy_by_task[run.job.task] -= 1

    def let_go(self, run: Run) -> None:
        """Hold a run no longer: its end is recorded, or is not ours to record."""
        # By identity: a newer run of the same job may have its place.
        if self._held.get(run.job.id) is run:
            del self._held[run.job.id]
        else:
            self._stale.discard(run)
        self.changed.set()

    def by_task(self) -> dict[str, int]:
        """The number of slots that each task uses. May be called from any thread."""
        # Copied in one step, since the loop's thread changes it meanwhile.
        return {name: busy for name, busy in self._busy_by_task.copy().items() if busy > 0}

    def jobs(self) -> list[LeasedJob]:
        """Return the jobs whose leases are to be kept."""
        return [run.job for run in self._held.values()]

    def find(self, ids: Iterable[str]) -> list[Run]:
        """Return the held runs of these jobs."""
        return [self._held[each] for each in ids if each in self._held]

    def runs(self) -> Sequence[Run]:
        """Return every run, the ones that lost their lease included."""
        return [*self._held.values(), *self._stale]

    def unfinished(self) -> list[Run]:
        """Return the runs whose handler has not ended."""
        return [run for run in self.runs() if not run.over]
