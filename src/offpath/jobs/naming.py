"""Ids of what a running handler makes: the same at every run of its job.

A job that is built inside a handler is named after the handler's job, after its own task and
input, and after how many like it were built before. So a handler that runs again, and does the
same, names the same jobs: enqueuing them again changes nothing. One that does something else names
others.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING

from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from offpath.jobs.worker.running import Run

_counting = threading.Lock()
"""Held while a name is counted: threads of one handler may build jobs at once."""


class Names:
    """The names given in one attempt. Usable from coroutines and threads."""

    __slots__ = ("_given", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._given: Counter[str] = Counter()

    @property
    def over(self) -> bool:
        """Whether the attempt has ended: what is still built in its name has ids of its own."""
        return self._run.over

    def next(self, what: str) -> str:
        """The id of the next one made of ``what``."""
        with _counting:
            number = self._given[what]
            self._given[what] = number + 1
        return derive_id(self._run.job.id, f"{what}/{number}")


_names: ContextVar[Names | None] = ContextVar("offpath_names", default=None)


def name_after(run: Run) -> None:
    """Name what is built from here on, in this task and the threads it calls, after this job."""
    _names.set(Names(run))


def child_id(what: str) -> str | None:
    """The id of what is built now inside a handler; None outside of one."""
    names = _names.get()
    return None if names is None or names.over else names.next(what)
