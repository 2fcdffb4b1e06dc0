"""Word from the system that the file's log was written to, where the system gives it (Linux).

SQLite tells nobody of a commit. Without this, who listens looks every few milliseconds, which costs
as much while nothing happens. The library that wraps inotify best starts a thread and needs a
dependency of the core; three calls of the C library do the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from offpath.store.sqlite.file import Identity, identity

_log = logging.getLogger("offpath.store")

_MODIFY: Final = 0x2
# It is read in the event loop, which must not wait, and no child process is to inherit it.
_FLAGS: Final = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_READ: Final = 4096
QUIET: Final = 0.002
QUIET_BEHIND_OWN: Final = 0.005
"""Seconds without a look at the events behind one: a busy writer must not fill the loop with them.
Whoever writes looks for commits of others behind each of its own, so own writes may be told late.
"""


class LogEvents:
    """Calls ``changed`` in the event loop soon after anybody has written to ``log``.

    A write is seen before its commit is: the log is written, then brought to the disk, then
    published. Writes of this process are told, too; ``changed`` answers whether it was another's.
    """

    def __init__(self, log: Path, changed: Callable[[], bool]) -> None:
        self._path = log
        self._changed = changed
        self._descriptor = -1
        self._watched: Identity | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> bool:
        """Begin to listen; False where the system gives no word, or has no more of it to give."""
        # A log that was removed with its last connection comes back as another file.
        if self._loop is not None and identity(self._path) != self._watched:
            self.stop()
        if self._loop is None and (descriptor := _watching(self._path)) >= 0:
            self._descriptor, self._watched = descriptor, identity(self._path)
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(descriptor, self._written)
        return self._loop is not None

    def stop(self) -> None:
        """Listen no more."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _written(self) -> None:
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, _READ)
        loop.remove_reader(self._descriptor)
        quiet = QUIET if self._changed() else QUIET_BEHIND_OWN
        self._timer = loop.call_later(quiet, self._again)

    def _again(self) -> None:
        self._timer = None
        if self._loop is not None:
            self._loop.add_reader(self._descriptor, self._written)


def _watching(path: Path) -> int:
    """A descriptor that becomes readable when the file is written to; -1 without one."""
    if not sys.platform.startswith("linux"):
        return -1
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(_FLAGS))
    if descriptor < 0:
        _log.debug("no word of writes to %s (%s): polling", path, os.strerror(ctypes.get_errno()))
        return -1
    if library.inotify_add_watch(descriptor, os.fsencode(path), _MODIFY) < 0:
        _log.debug("no word of writes to %s (%s): polling", path, os.strerror(ctypes.get_errno()))
        os.close(descriptor)
        return -1
    return descriptor
