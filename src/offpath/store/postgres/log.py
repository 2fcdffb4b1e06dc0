"""The event log: what is settled of it, and reading it.

Positions are given before their rows are committed, so a reader may not simply go on from the
highest it has seen: a lower one may appear later. Whoever writes to the log holds a lock on its
table from before it is given a position until its transaction has ended. So the positions that were
given when we looked are settled once those are gone who held the lock *after* that look.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from offpath.store.programs.dialect import Queries, Sight
from offpath.store.sql import Catalogue

_PREPARED: Final = "-1/"
"""The beginning of a prepared transaction's name: one of the writers may have become it."""

# With more writers than looks the newest are joined: a position settles later, never too early.
_KEPT: Final = 32
"""Looks that wait for their writers at once."""


class LogWriter(Struct, frozen=True):
    """An open transaction that may have written to the log."""

    transaction: str
    pid: int
    own: bool = False
    """True if it is the transaction that looks."""

    @property
    def prepared(self) -> bool:
        """True if it waits, without a session, for its second phase."""
        return self.transaction.startswith(_PREPARED)

    @property
    def shown(self) -> str:
        """The name by which an operator finds it."""
        return "a prepared transaction" if self.prepared else f"pid {self.pid}"


class LogLook(Struct, frozen=True):
    """The result of one look: everything up to ``horizon`` is settled."""

    given: int
    """The highest position that was given to anybody."""
    horizon: int
    waiting_for: tuple[str, ...] = ()

    def told(self) -> Sight:
        """The part of it that readers of the log are told."""
        return Sight(self.horizon, self.waiting_for)


class Horizon:
    """The positions that this process knows to be settled, shared by all readers. Safe to use from
    threads.

    Looks are kept until all who were writing then are gone: the positions given until then are
    settled, however many have begun to write meanwhile. Each look waits for its own writers, so an
    event waits for those that were open with it and for no others.

    A process that looks for the first time while somebody writes knows nothing until that one has
    ended. A cursor in the store would not help: what is above it, it says nothing about, and it may
    have been put anywhere by hand.
    """

    def __init__(self) -> None:
        # A router may run in a caller's transaction, which may be of another thread.
        self._guard = threading.Lock()
        self._settled = 0
        self._looks: list[tuple[int, frozenset[str]]] = []

    @property
    def settled(self) -> int:
        """Everything up to here is settled."""
        return self._settled

    def observe(self, given: int, writers: Sequence[LogWriter]) -> LogLook:
        """Take in a look: the highest position given, and then who was writing."""
        with self._guard:
            if given < self._settled:  # another server than before, or an older look
                self._settled, self._looks = 0, []
            while self._looks and _over(self._looks[0], given, writers):
                self._settled = max(self._settled, self._looks.pop(0)[0])
            self._keep(given, frozenset(one.transaction for one in writers))
            blocking = _blocking(self._looks[0][1], writers) if self._looks else []
            waiting = tuple(sorted({one.shown for one in blocking}))
            return LogLook(given, self._settled, waiting)

    def _keep(self, given: int, present: frozenset[str]) -> None:
        if given <= max(self._settled, self._looks[-1][0] if self._looks else 0):
            return
        if not present:
            self._settled, self._looks = given, []
            return
        if len(self._looks) == _KEPT:
            self._looks.pop()  # the newer one says all that it would have said
        self._looks.append((given, present))


def _over(look: tuple[int, frozenset[str]], given: int, writers: Sequence[LogWriter]) -> bool:
    """True if the writers of a look are gone. A look that began before it, and answered later, may
    have seen too few, and says nothing of it.
    """
    return look[0] <= given and not _blocking(look[1], writers)


def _blocking(awaited: frozenset[str], writers: Sequence[LogWriter]) -> list[LogWriter]:
    return [one for one in writers if one.prepared or one.transaction in awaited]


class SharedLook:
    """Looks at the log for everybody in this process.

    Whoever asks while a look is under way gets the next one, which they share: the one under way
    may have begun before what they have just been told about was committed.
    """

    def __init__(self, look: Callable[[], Awaitable[LogLook]]) -> None:
        self._look = look
        # One look at a time: whoever waits here shares the next one.
        self._lock = asyncio.Lock()
        self._begun = 0
        self._seen: tuple[int, LogLook] | None = None

    async def look(self) -> LogLook:
        """The result of a look that began after this call."""
        # Noted before the wait: only a look that begins after this call sees what its caller was
        # told about.
        ticket = self._begun
        async with self._lock:
            if self._seen is not None and self._seen[0] > ticket:
                return self._seen[1]
            self._begun += 1
            begun = self._begun
            sight = await self._look()
            self._seen = (begun, sight)
            return sight

    async def settled(self, patience: float, pause: float = 0.02) -> LogLook:
        """Look until everything that had been given at first is settled, or for ``patience``
        seconds; the last look.
        """
        sight = first = await self.look()
        try:
            async with asyncio.timeout(patience):
                while sight.horizon < first.given:
                    await asyncio.sleep(pause)
                    sight = await self.look()
        except TimeoutError:
            return sight
        return sight


def look_steps(horizon: Horizon, *, sql: Catalogue) -> Queries[LogLook]:
    """Look at the log. Two statements, for the order matters; one where nothing is new.

    What the transaction that looks has written itself is settled for itself, and only for itself.
    """
    # Given before writers: a writer that comes between the two holds the table's lock in the second
    # answer. The other way round its position would count as settled.
    ((given,),) = yield sql["log_given"]()
    if given == horizon.settled:
        return LogLook(given, given)
    rows = yield sql["log_writers"]()
    writers = [LogWriter(transaction, pid, bool(own)) for transaction, pid, own in rows]
    sight = horizon.observe(given, writers)
    # Its own positions would otherwise wait for its own end.
    if writers and all(one.own for one in writers):
        return LogLook(given, given)
    return sight
