"""Acts of another connection just before a named statement of a store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from offpath.store.protocol import Store

_WAITS: float = 0.3
"""Seconds after which what has not returned waits for a lock of the store."""
_ENDS: float = 10.0


class Intruder:
    """Acts once, before the first statement of a name is sent."""

    def __init__(self, name: str, act: Callable[[], object], patience: float) -> None:
        self._name = name
        self._thread = threading.Thread(target=self._run)
        self._act = act
        self._patience = patience
        self._error: BaseException | None = None
        self.came = False
        """True if the statement was sent at all."""
        self.waited = False
        """True if it had to wait for what the store holds."""

    def __call__(self, statement: str) -> None:
        """Called before each statement."""
        if statement != self._name or self.came:
            return
        self.came = True
        self._thread.start()
        self._thread.join(self._patience)
        self.waited = self._thread.is_alive()

    def end(self) -> None:
        """Let it finish. Raises what it raised."""
        if self.came:
            self._thread.join(_ENDS)
            assert not self._thread.is_alive(), "it waits for a lock that nobody gives up"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # raised again by end()
            self._error = error


@contextmanager
def before(
    store: Store, name: str, act: Callable[[], object], *, waits: bool = False
) -> Iterator[Intruder]:
    """Have ``act`` run on a thread of its own just before this statement of the store.

    The statement is sent when ``act`` has ended, or, if it ``waits`` for what the store holds,
    soon: an act that only is slow on a busy machine would come too late.
    """
    intruder = Intruder(name, act, _WAITS if waits else _ENDS)
    hooked = cast("Any", store)
    hooked._before_statement = intruder
    try:
        yield intruder
    finally:
        hooked._before_statement = None
        intruder.end()
    assert intruder.came, f"{name} was not sent"
