"""Ids of what a running handler makes: the same at every run of its job.

A job that is built inside a handler is named after the handler's job, after its own task and
input, and after how many like it were built before. So a handler that runs again, and does the
same, names the same jobs: what it stored or handed out of their ids stays true.

What is joined to the end of an attempt is stored once, since only one attempt ends well. What a
handler sends by itself is stored at once, and another run may mean another job by the same name:
such a job gets a new id when it is sent, so that none is taken for a repeat of the earlier one.
But what a step sends is named after the step too: a step that is done again means the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offpath.runtime.forks import ProcessLock
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpath.model.job import LeasedJob, NewJob

_counting = ProcessLock()
"""Held while a name is counted: threads of one handler may build jobs at once."""


class NamingAttempt(Protocol):
    """The attempt in whose name jobs are built."""

    @property
    def job(self) -> LeasedJob:
        """The job that is attempted."""
        ...

    @property
    def over(self) -> bool:
        """True if it has ended."""
        ...


class Name(Struct, frozen=True):
    """An id that is the same at every run of a handler."""

    id: str
    again: bool
    """True if the handler ran before: then that run may have sent a job of this id."""


class Names:
    """The names given in one attempt. Usable from coroutines and threads."""

    __slots__ = ("_given", "_place", "_run")

    def __init__(self, run: NamingAttempt, step: str | None = None) -> None:
        self._run = run
        self._place = "" if step is None else f"step/{step}/"
        self._given: dict[str, int] = {}

    @property
    def over(self) -> bool:
        """True if the attempt has ended: what is still built in its name has ids of its own."""
        return self._run.over

    @property
    def in_step(self) -> bool:
        """True if these are the names of a step."""
        return bool(self._place)

    def of_step(self, step: str) -> Names:
        """The names given in a step."""
        return Names(self._run, step)

    def next(self, what: str) -> Name:
        """The name of the next one made of ``what``."""
        with _counting:
            number = self._given.get(what, 0)
            self._given[what] = number + 1
        job, place = self._run.job, self._place
        made = derive_id(job.id, f"{place}{what}/{number}")
        return Name(made, not place and job.deliveries > 1)


_STEP = 1e-6
"""Seconds from one job of a list to the next."""

naming: ContextVar[Names | None] = ContextVar("offpath_names", default=None)
"""The names for the jobs that are built here; None outside of a handler."""


def name_after(run: NamingAttempt | None) -> None:
    """Name what is built from here on, in this task and the threads it calls, after this job.

    None: after no job, also where this task was begun by a handler.
    """
    # Most handlers start with a context of their own, where nothing is set, and name nothing.
    if run is not None or naming.get() is not None:
        naming.set(None if run is None else Names(run))


@contextmanager
def in_step(step: str) -> Iterator[None]:
    """Name what is built in the block after a step of the handler."""
    names = naming.get()
    if names is None:
        yield
        return
    token = naming.set(names.of_step(step))
    try:
        yield
    finally:
        naming.reset(token)


def child_name(what: str, *, sent: bool = False) -> Name | None:
    """The name of what is built now inside a handler; None outside of one, and, if it is sent at
    once (``sent``), outside of a step.
    """
    names = naming.get()
    if names is None or names.over or (sent and not names.in_step):
        return None
    return names.next(what)


def ordered(delay: float, place: int, size: int) -> float:
    """The delay of a job at a place in a list of ``size``, so that equal ones go in their order.

    The ids of what a handler queues follow from what it is, so that a handler that runs again
    gives the same ones, and are in no order. So each is due a microsecond after the one before it,
    and the last one when it should be: so what is due at once is due now.
    """
    return delay - (size - 1 - place) * _STEP


def in_order(jobs: Sequence[NewJob]) -> tuple[NewJob, ...]:
    """The same jobs, with equal ones in this order: see :func:`ordered`."""
    size = len(jobs)
    return tuple(
        replace(job, delay=ordered(job.delay, place, size)) for place, job in enumerate(jobs)
    )
