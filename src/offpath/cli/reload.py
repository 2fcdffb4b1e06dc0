"""``offpath worker --reload``: a worker that begins anew when a file of the project has changed."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from offpath.errors import MissingExtra
from offpath.runtime.parent import Child

ENDS_WITHIN: Final = 3.0
"""Seconds that running jobs may take when a file has changed; then they are given back, and run
again in the new worker. Whoever saves a file does not wait for a long job."""
KILLED_AFTER: Final = 2.0
"""Seconds after that in which the process has to be gone."""
_LOOK: Final = 0.05
_GATHER_MS: Final = 200
"""Milliseconds in which changes are one: editors write a file in several steps."""
_log = logging.getLogger("offpath.cli")


class Reloader:
    """Keeps one process of a command, and begins another one after each change below a folder.

    One that ends by itself, as with a fault in a file, is not started again before a change.
    SIGTERM and SIGINT are handed on; the second one aborts. Raises ``MissingExtra``.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._over = threading.Event()
        self._changes = _watched(folder, self._over)
        self._signals = 0
        reading, self._writing = os.pipe()
        self._child = Child(command, reading)

    def run(self) -> int:
        """Run until a signal; the exit code of the last process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGQUIT, lambda *_: self._child.send(signal.SIGQUIT))
        self._child.start()
        for changed in self._changes:
            _log.info("%s: the worker begins anew", _named(changed))
            self._end()
            if self._signals:
                break
            self._child.start()
        while self._child.alive:
            time.sleep(_LOOK)
        return self._child.code

    def _end(self) -> None:
        """End the process: as on SIGTERM, and by a second signal when that takes long."""
        for number, patience in ((signal.SIGTERM, ENDS_WITHIN), (signal.SIGINT, KILLED_AFTER)):
            self._child.send(number)
            if self._gone(patience):
                return
        self._child.send(signal.SIGKILL)
        self._gone(KILLED_AFTER)

    def _gone(self, patience: float) -> bool:
        until = time.monotonic() + patience
        while self._child.alive and time.monotonic() < until:
            time.sleep(_LOOK)
        return not self._child.alive

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        # two pending signals of one number would be one
        self._child.send(signal.SIGTERM if self._signals == 1 else signal.SIGINT)
        self._over.set()


def _watched(folder: Path, over: threading.Event) -> Iterator[Iterable[str]]:
    """The names of files of Python below a folder that have changed, whenever some have."""
    try:
        from watchfiles import PythonFilter, watch
    except ImportError as error:
        raise MissingExtra("offpath worker --reload needs watchfiles", "reload") from error
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # we say ourselves what has changed
    changes = watch(
        folder,
        watch_filter=PythonFilter(extra_extensions=(".toml",)),
        debounce=_GATHER_MS,
        stop_event=over,
    )
    return ([path for _, path in several] for several in changes)


def _named(paths: Iterable[str]) -> str:
    names = sorted({Path(path).name for path in paths})
    more = len(names) - 1
    return f"{names[0]} has changed" if not more else f"{names[0]} and {more} more have changed"
