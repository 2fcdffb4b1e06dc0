"""Seeing a worker's death at once: each living worker holds a lock on a file of its own.

The operating system frees the lock when the process ends, however it ends. ``flock`` is used,
never POSIX locks, which vanish when the process closes any other descriptor of the file. A forked
child inherits the descriptor and would keep its parent "alive": it closes it. It must not unlock
it, which would free the parent's lock.

Locking, probing and removing happen under the lock of the directory's registry, so that a probe
is never mistaken for a holder and no file is removed under a worker that is just starting.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows: the lease alone decides
    fcntl = None  # type: ignore[assignment]

AVAILABLE: Final = fcntl is not None
"""True if this platform has ``flock``."""

# a link that somebody put in the way is not followed: it may lead to any file of ours
_OPEN: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAKE: Final = _OPEN | os.O_CREAT
_MODE: Final = 0o600
_PATIENCE: Final = 1.0
"""Seconds to wait for the registry's lock. Ours hold it for microseconds; whoever holds it longer
is not one of ours, and must not hold up a worker's start, heartbeat or stop."""
_PAUSE: Final = 0.01

_log = logging.getLogger("offpath.store")

# Descriptors of this process's locks, and their files: closed in forked children.
_held: dict[int, Path] = {}


# Once for all stores: a handler of forks cannot be taken back.
@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_close_inherited)


def _close_inherited() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


class Presence:
    """The lock files beside one database file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}
        self._changing = threading.Lock()  # two threads may want the lock of one worker
        self._pid = os.getpid()
        self._told = False

    def hold(self, worker: str) -> bool:
        """Take the worker's lock, or keep it; False when this file system does not allow it."""
        if not AVAILABLE or os.getpid() != self._pid:
            return False
        # flock counts descriptors and not processes, so a second lock by this one would be refused.
        with self._changing:
            return worker in self._locks or self._take(worker)

    def _take(self, worker: str) -> bool:
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            with self._registry():
                self._locks[worker] = self._locked(worker)
        except OSError as error:
            self._tell(error)
            return False
        return True

    def _tell(self, error: OSError) -> None:
        """Say once that deaths will not be seen early, and which file is in the way."""
        if not self._told:
            self._told = True
            _log.warning(
                "the deaths of this machine's workers are seen by their leases only: %s: %s",
                error.filename or self._directory,
                error.strerror,
            )

    def release(self, worker: str) -> None:
        """Let go of the lock of a worker that has stopped, and remove its file. Never raises."""
        if os.getpid() != self._pid:
            return
        with self._changing:
            # The file goes before the lock: free with its file there, the lock would look like a
            # death.
            if worker in self._locks:
                with contextlib.suppress(OSError), self._registry():
                    self._file(worker).unlink(missing_ok=True)
                self._let_go(worker)

    def abandon(self) -> None:
        """Let go of every lock but leave the files: those workers are seen to be gone."""
        if os.getpid() != self._pid:
            return
        with self._changing:
            # A copy, since letting go takes them out.
            for worker in tuple(self._locks):
                self._let_go(worker)

    def _let_go(self, worker: str) -> None:
        descriptor = self._locks.pop(worker)
        _held.pop(descriptor, None)
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def of_others(self, workers: Iterable[str]) -> list[str]:
        """The workers whose locks are not held through this store."""
        return [worker for worker in workers if worker not in self._locks]

    def missing(self, workers: Iterable[str]) -> set[str]:
        """The workers whose lock is free though their file is there: no process holds it any more.

        Where the file is gone nothing is known, and the lease decides.
        """
        suspects = self.of_others(workers)
        if not suspects or not AVAILABLE:
            return set()
        try:
            with self._registry():
                return {worker for worker in suspects if _is_free(self._file(worker))}
        except OSError:
            return set()

    def held_elsewhere(self, workers: Iterable[str]) -> set[str]:
        """The workers whose lock another process holds. A lock that this process holds proves
        nothing about itself.

        None where the locks cannot be looked at: then the lease decides.
        """
        if not AVAILABLE:
            return set()
        # Of the whole process: several of its stores may use one file.
        ours = set(_held.values())
        others = {worker: file for worker in workers if (file := self._file(worker)) not in ours}
        try:
            with self._registry():
                return {one for one, file in others.items() if file.exists() and not _is_free(file)}
        except OSError:
            return set()

    def forget(self, workers: Iterable[str]) -> None:
        """Remove the files of dead workers."""
        with contextlib.suppress(OSError), self._registry():
            for worker in workers:
                # Only a free one: the id may belong to a worker that others took for dead too soon.
                if _is_free(self._file(worker)):
                    self._file(worker).unlink(missing_ok=True)

    def sweep(self, known: Iterable[str]) -> None:
        """Remove the files that no worker in ``known`` has and nobody holds."""
        names = {self._file(worker).name for worker in (*known, *self._locks)}
        with contextlib.suppress(OSError), self._registry():
            for path in self._directory.glob("*.lock"):
                if path.name not in names and _is_free(path):
                    path.unlink(missing_ok=True)

    def _file(self, worker: str) -> Path:
        # Ids are the caller's text; a digest is a safe file name.
        return self._directory / f"{hashlib.sha256(worker.encode()).hexdigest()[:32]}.lock"

    def _locked(self, worker: str) -> int:
        _watch_forks()
        descriptor = os.open(self._file(worker), _MAKE, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        _held[descriptor] = self._file(worker)
        return descriptor

    @contextlib.contextmanager
    def _registry(self) -> Iterator[None]:
        path = self._directory / "registry"
        descriptor = os.open(path, _MAKE, _MODE)
        try:
            _lock(descriptor, path)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    """Take a lock that is held for a moment only. Raises ``TimeoutError`` with the file's name."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError(
                    errno.ETIMEDOUT, "its lock is held by a process that is not a worker", str(path)
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _is_free(path: Path) -> bool:
    """True if the file is there and its lock can be had."""
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
