"""Things that begin anew in a child of a fork: locks, and pools of threads that are not there."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Protocol


class Renewable(Protocol):
    """Something that may not be used in a child as the parent left it."""

    def renew(self) -> None:
        """Be as new: nothing of it is in use, and no thread of it is there."""
        ...


_KNOWN: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renewed_in_children(thing: Renewable) -> None:
    """Have this renewed in each child of a fork, as long as it is there."""
    _KNOWN.add(thing)


class ProcessLock:
    """A lock between the threads of one process: a child of a fork finds it free.

    A plain lock that another thread holds at the fork stays held in the child for ever. It is not
    to be held by the thread that forks.
    """

    __slots__ = ("__weakref__", "_lock", "_reentrant")

    def __init__(self, *, reentrant: bool = False) -> None:
        self._reentrant = reentrant
        self.renew()
        renewed_in_children(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free."""
        self._lock = threading.RLock() if self._reentrant else threading.Lock()


def _in_child() -> None:
    for thing in tuple(_KNOWN):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
