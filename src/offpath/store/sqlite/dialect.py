"""SQLite's way to say a program, and how one is run: by the writer's thread, or by a reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.store.hints import Hints
from offpath.store.programs.dialect import (
    Announced,
    Dialect,
    How,
    Queries,
    Sight,
    Steps,
    ask,
    embed,
)
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.sqlite import groups
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.limits import prune_steps
from offpath.store.sqlite.session import SQL, Session
from offpath.store.sqlite.words import SqliteWording

T = TypeVar("T")


class SqliteDialect(SqliteWording):
    """A transaction of the writer's thread, or of a reader."""

    __slots__ = ("announced", "stalled")

    home: Final = "main"

    def __init__(self, now: int, *, stalled: bool = False) -> None:
        super().__init__(now)
        self.stalled: Final = stalled
        self.announced: Final = Announced()

    @property
    def milliseconds(self) -> int:
        """The store's time in milliseconds."""
        return self.now // 1000

    def commit(self, effects: Effects) -> Steps[tuple[Sequence[Enqueued], Steps[None]]]:
        """Write effects, groups too: there is one writer, so nothing needs to come last."""
        answers = (yield from embed(effect_steps(effects, self.now))) if effects else []
        return answers, _nothing()

    def hold_again(self, keys: Sequence[str]) -> Steps[Collection[str]]:
        """Hold what was put back of closed limits."""
        if not keys:
            return ()
        query = SQL["hold_closed"](keys=self.batch(sorted(set(keys))), now=self.now)
        return {job for (job,) in (yield from ask(query))}

    def write_groups(self, work: GroupWork) -> Steps[Mapping[str, Left]]:
        """Write the changes to groups."""
        return embed(groups.write_steps(work))

    def prune_limits(self, limit: int) -> Steps[None]:
        """Python reads what a rate remembers; keys that are needed are looked at again later."""
        return embed(prune_steps(self.now, limit))

    def add(self, effects: Effects) -> Queries[None]:
        """Write effects."""
        yield from effect_steps(effects, self.now)

    def settled(self) -> Queries[Sight]:
        """All that was given is settled: whoever writes has the file alone."""
        for (given,) in (yield SQL["log_horizon"]()):
            return Sight(given)
        # The table of counters has a row only from the first event on.
        return Sight(0)

    def require_present(self) -> Queries[None]:
        """A transaction that takes the write lock has seen what others committed."""
        yield from ()


def _nothing() -> Steps[None]:
    yield from ()


class _Write(Protocol):
    def __call__(
        self,
        work: Callable[[Session], Any],
        *,
        peek: Callable[[Session], Any] | None = None,
        relaxed: bool = False,
    ) -> Any: ...  # noqa: ANN401 - what ``work`` answers


class SqliteRunner:
    """Runs programs by the threads of a store."""

    def __init__(
        self,
        now: Callable[[], int],
        write: _Write,
        read: Callable[[Callable[[Session], Any]], Any],
        hints: Hints,
    ) -> None:
        self._now = now
        self._write = write
        self._read = read
        self._hints = hints

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,
        peek: Callable[[Dialect], Steps[T | None]] | None = None,
    ) -> T:
        """The answer of ``program``, once it is committed."""
        d = SqliteDialect(0)

        def work(session: Session) -> T:
            nonlocal d
            # the time when its turn has come, and anew each time
            d = SqliteDialect(self._now(), stalled=session.stalled)
            return session.perform(program(d))

        def looked(session: Session) -> T | None:
            return None if peek is None else session.perform(peek(SqliteDialect(self._now())))

        answer: T = await (
            self._read(work)
            if how.reads
            else self._write(work, peek=None if peek is None else looked, relaxed=how.relaxed)
        )
        for hint in d.announced.hints():
            self._hints.emit(hint)
        return answer
