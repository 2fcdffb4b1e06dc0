"""Forks: no connection to a file of SQLite is open while a process forks.

SQLite keeps in the process's memory which locks of a file the process has. The system gives a
child none of them. A child that opens the file beside an inherited connection waits for a lock that
nobody will give back, or reads and writes without one; and a mutex that another thread has in that
moment is held for ever. So a fork waits until no thread of ours uses SQLite, and closes what is
open. Whoever needs a connection makes it again, in the parent and in the child.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import Counter
from types import TracebackType
from typing import Final, Protocol

from offpath.errors import OffpathError, StoreUnavailable

PATIENCE: Final = 5.0
"""Seconds that a fork waits for statements that run. The child of one that cannot be waited for
opens no file of SQLite.
"""


class OpenConnection(Protocol):
    """A connection to a file. Its holder makes another one when it was closed."""

    @property
    def closed(self) -> bool:
        """True if it is closed."""
        ...

    def close(self) -> None:
        """Close it. Called in any thread, while nobody is inside of the gate."""
        ...


class ForkGate:
    """Lets threads use SQLite, but while the process forks. Entered around each use.

    A thread that is inside may enter again.
    """

    def __init__(self) -> None:
        self._spoilt = False
        self._begin()

    def _begin(self) -> None:
        """Be as in a process that has not forked yet, and has no thread but one."""
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._shut = False
        # held from before a fork until it is over: two threads may fork at once
        self._forking = threading.Lock()
        self._open: weakref.WeakSet[OpenConnection] = weakref.WeakSet()
        self._rested = False

    def add(self, connection: OpenConnection) -> None:
        """Have this closed before a fork."""
        self._open.add(connection)

    def require(self) -> None:
        """Raise ``StoreUnavailable`` where this process must not open a file."""
        if self._spoilt:
            raise StoreUnavailable(
                "this process was forked while its parent used SQLite, so its locks cannot be "
                f"trusted: fork where no statement takes longer than {PATIENCE:.0f} s, or before "
                "the first use, or start a new process (multiprocessing: `spawn`)"
            )

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._shut and me not in self._inside:
                self._changed.wait()
            self._inside[me] += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                if self._shut:
                    self._changed.notify_all()

    # -- around a fork ----------------------------------------------------------------------------

    def before(self) -> None:
        """Wait for those inside, let nobody else in, and close what is open."""
        self._forking.acquire()
        me = threading.get_ident()
        with self._changed:
            self._shut = True
            free = self._changed.wait_for(lambda: not self._inside.keys() - {me}, PATIENCE)
        self._rested = free and me not in self._inside and self._all_closed()

    def _all_closed(self) -> bool:
        # A copy, since a weak set may lose members while it is walked over.
        for each in tuple(self._open):
            # One that does not close is seen below, and the child then opens no file.
            with contextlib.suppress(OffpathError):
                each.close()
        return self._idle

    @property
    def _idle(self) -> bool:
        return not self._inside and all(each.closed for each in tuple(self._open))

    def in_parent(self) -> None:
        """Go on as before."""
        with self._changed:
            self._shut = self._rested = False
            self._changed.notify_all()
        self._forking.release()

    def in_child(self) -> None:
        """Begin anew: of the threads that were inside none is here."""
        # a fork by code in C may not have told us before it
        if not (self._rested or self._idle):
            self._spoilt = True
        self._begin()


GATE: Final = ForkGate()
"""The gate of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=GATE.before, after_in_parent=GATE.in_parent, after_in_child=GATE.in_child
    )
