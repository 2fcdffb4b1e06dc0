"""A look whether the process can still open anything: a file, a connection, a client's socket.

A handler that leaks descriptors takes them from the whole process. What the worker needs itself is
open by then, so its lease goes on; but new connections fail, each with an error that names the
connection. This says what the reason is, and who runs.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from offpath.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpath.jobs.values.run import Run

_log = logger("worker")

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
"""Error numbers of a process, and of a machine, that has no descriptor left."""
_MOST = 3
"""Jobs that are named: any of those that run may hold them."""


class Descriptors:
    """Sees when a process has no file descriptor left, and says so once."""

    def __init__(self, runs: Callable[[], Sequence[Run]]) -> None:
        self._runs = runs
        self.exhausted: str | None = None
        """The fault, in one line; None while there are descriptors."""

    def look(self) -> None:
        """Open a file that is always there, and close it. Call it from any thread."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._gone()
            return
        if self.exhausted is not None:
            self.exhausted = None
            _log.warning("the process has file descriptors again")

    def _gone(self) -> None:
        first = self.exhausted is None
        running = [f"job {run.job.id} of task {run.job.task}" for run in self._runs()[:_MOST]]
        who = f" while {', '.join(running)} runs" if running else ""
        self.exhausted = f"the process has no file descriptor left{who}: does it close its files?"
        if first:
            _log.warning("%s", self.exhausted)
