"""A memory store whose jobs can join a transaction of the caller's, as those of a database do."""

from __future__ import annotations

import asyncio
import copy
import weakref
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from offpath.errors import InvalidArgument
from offpath.store.memory import MemoryStore, reads
from offpath.store.memory import effects as doors
from offpath.store.memory.effects import PlannedEffects
from offpath.store.refusals import refuse_contributions
from offpath.store.within import require_joinable
from offpath.store.within.commits import after_commit, caller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued, JobRecord
    from offpath.runtime.clock import Clock

Within = Literal["commit", "at_once", "refuse"]
"""The moment at which what was given ``within=`` a transaction is there."""
WITHIN: Final = get_args(Within)
_PATIENCE: Final = 30.0
"""Real seconds for the loop of the app to take what was committed in another thread."""


class TransactionalMemory(MemoryStore):
    """A memory store that holds back what joins a transaction, until that is committed.

    ``at_once``: it is there at once, also after a rollback, whatever the connection is; so it is
    with ``commit`` too for connections whose library tells nobody of a commit. ``refuse``: it is
    refused, as any memory store refuses it.
    """

    def __init__(
        self,
        clock: Clock,
        within: Within,
        loop: Callable[[], asyncio.AbstractEventLoop | None],
    ) -> None:
        super().__init__(clock)
        self._within = within
        self._loop = loop
        self._held: list[weakref.ref[HeldEffects]] = []
        """Weak: the library that tells of the commit holds them, and lets go at a rollback."""

    async def commit_within(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """Hold these back until the caller's transaction is committed."""
        if self._within == "refuse":
            return await super().commit_within(connection, effects)
        return self._joined(connection, effects, blocking=False)

    def commit_within_blocking(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """Commit as :meth:`commit_within` does."""
        if self._within == "refuse":
            return super().commit_within_blocking(connection, effects)
        return self._joined(connection, effects, blocking=True)

    async def get_within(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401
        """The jobs of these ids, those that the caller's transaction holds back too."""
        if self._within == "refuse":
            return await super().get_within(connection, ids)
        return self._seen(connection, ids, blocking=False)

    def get_within_blocking(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401
        """Read as :meth:`get_within` does."""
        if self._within == "refuse":
            return super().get_within_blocking(connection, ids)
        return self._seen(connection, ids, blocking=True)

    def _seen(self, connection: Any, ids: Sequence[str], *, blocking: bool) -> list[JobRecord]:  # noqa: ANN401
        """The jobs as they are once the transaction is committed, in a copy in which it is."""
        if self._within == "at_once":
            return reads.get(self._tables, ids)
        require_joinable(connection, blocking=blocking)
        held = self._held_by(caller_of(connection))
        tables = copy.deepcopy(self._tables) if held else self._tables
        for one in held:
            doors.commit(tables, self._clock.now(), one.effects)
        return reads.get(tables, ids)

    def _held_by(self, caller: object) -> list[HeldEffects]:
        return [one for ref in self._held if (one := ref()) and one.caller == caller]

    def _joined(self, connection: Any, effects: Effects, *, blocking: bool) -> list[Enqueued]:  # noqa: ANN401
        if self._within == "at_once":
            return self._write(effects)
        require_joinable(connection, blocking=blocking)
        refuse_contributions(effects)
        caller = caller_of(connection)
        before = [one.effects for one in self._held_by(caller)]
        answers = self._planned([*before, effects])
        held = HeldEffects(caller, effects, self._write)
        if not after_commit(connection, held.commit):
            return self._write(effects)
        self._held = [ref for ref in self._held if ref() is not None]
        self._held.append(weakref.ref(held))
        return answers

    def _planned(self, several: Sequence[Effects]) -> list[Enqueued]:
        """The answers about the last of these, after the others; nothing is written."""
        plan = PlannedEffects(self._tables, self._clock.now())
        for effects in several:
            plan.add(effects)
        last = several[-1]
        return plan.answers[len(plan.answers) - len(last.jobs) - len(last.messages) :]

    def _write(self, effects: Effects) -> list[Enqueued]:
        """Commit in the loop that the store belongs to, from whichever thread."""
        loop = self._loop()
        if loop is None or not loop.is_running() or loop is _running():
            return _now(self, effects)
        done = asyncio.run_coroutine_threadsafe(self.commit(effects), loop)
        return done.result(_PATIENCE)


class HeldEffects:
    """Effects that wait for a commit."""

    __slots__ = ("__weakref__", "_write", "caller", "effects")

    def __init__(
        self, caller: object, effects: Effects, write: Callable[[Effects], list[Enqueued]]
    ) -> None:
        self.caller = caller
        """Tells whose transaction it is."""
        self.effects = effects
        self._write = write

    def commit(self) -> None:
        """Write them: the transaction was committed."""
        self._write(self.effects)


def _now(store: MemoryStore, effects: Effects) -> list[Enqueued]:
    """The answer of a coroutine that waits for nothing."""
    step = store.commit(effects)
    try:
        step.send(None)
    except StopIteration as end:
        answers: list[Enqueued] = end.value
        return answers
    step.close()
    raise AssertionError("a memory store has waited")


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def checked_within(given: object) -> Within:
    """The mode. Raises ``InvalidArgument``."""
    for mode in WITHIN:
        if given == mode:
            checked: Within = mode
            return checked
    raise InvalidArgument(f"within is one of {', '.join(WITHIN)}, not {given!r}")
