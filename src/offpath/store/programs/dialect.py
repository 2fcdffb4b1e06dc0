"""A transition as a program: a generator that yields statements and is sent their rows.

A program is written once for every SQL database. A :class:`Dialect` says how its database writes
it: the catalogue of its statements, and how a time or a batch becomes a parameter. The store of a
database names its programs, one :func:`transition` a line, and its :class:`Runner` runs each in one
transaction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from offpath.model.effects import Effects
from offpath.model.job import TERMINAL, Enqueued, JobState
from offpath.store.hints import Hint
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.sql import DEFAULT_SCHEMA, Catalogue, Query, Row, prefixed

T = TypeVar("T")
P = ParamSpec("P")

Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Send:
    """Statements that go out together. ``last``: nothing follows, so COMMIT goes with them."""

    queries: tuple[Query, ...]
    last: bool = False
    severable: bool = False
    """It does no harm if the first of them are kept and the others are not."""


Steps = Generator[Send, list[Rows], T]
"""A transition on our own connection: it may send several statements at once."""

Queries = Generator[Query, Sequence[Row], T]
"""A transition that any connection can run, one statement at a time."""


@dataclass(slots=True)
class Announced:
    """The changes of a transition that others wait for: they are told about after the commit."""

    any: bool = False
    """Some changed jobs are announced, so there may be messages."""
    moved: set[JobState] = field(default_factory=set)
    """The states that other jobs, of which no answer tells, have reached."""
    told: set[Hint] = field(default_factory=set)
    """The hints of the transition itself."""

    def tell(self, *hints: Hint) -> None:
        """Tell of this, too."""
        self.told.update(hints)

    def hear(self, bits: Iterable[int | None]) -> None:
        """Take in what the changed jobs announce."""
        self.any = self.any or any(bits)

    def hints(self) -> list[Hint]:
        """The hints to send for all this."""
        hints = self.told.union(
            Hint.ENDED if state in TERMINAL else Hint.WORK for state in self.moved
        )
        if self.any:
            hints.add(Hint.MESSAGES)
        return sorted(hints)


class Sight(NamedTuple):
    """The part of the log that is settled: no event can appear at or below ``horizon`` any more."""

    horizon: int
    waiting_for: tuple[str, ...] = ()
    """The open transactions that hold it back, as an operator finds them."""


class Wording(Protocol):
    """One database's way to say statements and their values, in anybody's transaction."""

    @property
    def sql(self) -> Catalogue:
        """The statements by name: the same names in every database."""
        ...

    @property
    def now(self) -> Any:  # noqa: ANN401 - a parameter of this database
        """The store's time as a parameter; None is the database's own clock."""
        ...

    @property
    def failures_first(self) -> bool:
        """True if a failure is written before the end that it explains, so that a message tells it.

        The message about an end is written by a trigger: one reads the failures that are there, the
        other waits for the failure.
        """
        ...

    def at(self, moment: datetime | None) -> Any:  # noqa: ANN401 - a parameter of this database
        """A time as a parameter."""
        ...

    def span(self, seconds: float | None) -> Any:  # noqa: ANN401 - a parameter of this database
        """A duration as a parameter that statements add to :attr:`now`.

        May raise ``StoreRejected`` for one that leads to no time.
        """
        ...

    def json(self, value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
        """A document as it is kept. Raises ``StoreRejected`` for text that is not Unicode."""
        ...

    def batch(self, rows: Iterable[Any]) -> str:
        """Rows as one parameter, which the statement takes apart. Raises ``StoreRejected``."""
        ...

    def ids(self, ids: Iterable[str]) -> str:
        """Ids as one parameter, once each; what cannot be an id is left out."""
        ...

    def id(self, text: str) -> str | None:
        """One id as a parameter, None for what cannot be an id."""
        ...

    def any_of(self, values: Sequence[str]) -> Any:  # noqa: ANN401 - a parameter of this database
        """A choice of texts as one parameter, by which a statement may be planned; None: any."""
        ...

    def told_the_time(self) -> tuple[Query, ...]:
        """Statements that tell triggers a time that was given; none where there is no need."""
        ...

    def tally(self, ended: Mapping[str, bool], *, wait: bool) -> Queries[Sequence[Row]]:
        """Count ended jobs, and whether they succeeded, in the open gates that watch them.

        Returns the counts of these gates. Without ``wait`` those that others hold are left out.
        """
        ...


class Dialect(Wording, Protocol):
    """One database's way to say a program, for one transaction of our own."""

    @property
    def milliseconds(self) -> int | None:
        """The store's time as the ledger keeps times; None is the database's own clock."""
        ...

    @property
    def stalled(self) -> bool:
        """True if workers that live could not renew their leases just now."""
        ...

    @property
    def home(self) -> str:
        """The schema of a table of the user's own that is named without one."""
        ...

    @property
    def announced(self) -> Announced:
        """Takes in what the transition changes for others."""
        ...

    def commit(self, effects: Effects) -> Steps[tuple[Sequence[Enqueued], Steps[None]]]:
        """Write effects: the answers, and the steps that must come last before the commit.

        Rows of groups are locked and written in those last steps, behind all others.
        """
        ...

    def hold_again(self, keys: Sequence[str]) -> Steps[Collection[str]]:
        """Hold what this transaction has put back of these limits where they are closed."""
        ...

    def write_groups(self, work: GroupWork) -> Steps[Mapping[str, Left]]:
        """Write the changes to groups, as the last of a transaction; how each group is left."""
        ...

    def prune_limits(self, limit: int) -> Steps[None]:
        """Remove the limits that no job needs, and whose rates remember nothing that counts."""
        ...

    def add(self, effects: Effects) -> Queries[None]:
        """Write effects as the last of anybody's transaction."""
        ...

    def settled(self) -> Queries[Sight]:
        """Look at how far the log is settled. Asked before the log is read, and never after."""
        ...

    def require_present(self) -> Queries[None]:
        """Raise ``WrongConnection`` in a transaction that does not see what others commit."""
        ...


@dataclass(frozen=True, slots=True)
class How:
    """The way in which a database runs a program. A database ignores what is nothing to it."""

    reads: bool = False
    """It changes nothing: SQLite's readers do it, beside the writer, and Postgres does it once more
    where the connection was lost."""
    call: bool = False
    """A request waits for it, and a repeat does no harm: Postgres does that too where the
    connection was lost, and gives up a silent server sooner."""
    unpinned: bool = False
    """Postgres plans it by its values, for what it walks depends on them."""
    relaxed: bool = False
    """A power cut may undo it without harm, so SQLite does not wait for the disk."""


WRITES: Final = How()
READS: Final = How(reads=True)


class Runner(Protocol):
    """Runs programs, each in one transaction, and tells of what they announced."""

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,
        peek: Callable[[Dialect], Steps[T | None]] | None = None,
    ) -> T:
        """The answer of ``program``, once it is committed.

        The program may be made and run again, where its transaction could not be. ``peek`` may
        answer without a write; anything but None is the answer.
        """
        ...


class HasRunner(Protocol):
    """A store whose methods are transitions."""

    @property
    def runner(self) -> Runner:
        """Runs them."""
        ...


class Transition(Generic[P, T]):
    """A store's method: a program, and how it is run."""

    def __init__(
        self,
        program: Callable[Concatenate[Dialect, P], Steps[T]],
        how: How,
        peek: Callable[Concatenate[Dialect, P], Steps[T | None]] | None,
    ) -> None:
        self._program = program
        self._how = how
        self._peek = peek

    @overload
    def __get__(self, store: None, owner: type) -> Transition[P, T]: ...
    @overload
    def __get__(self, store: HasRunner, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(
        self, store: HasRunner | None, owner: type
    ) -> Transition[P, T] | Callable[P, Coroutine[Any, Any, T]]:
        """The transition of one store, as a method."""
        return self if store is None else functools.partial(self._run, store.runner)

    async def _run(self, runner: Runner, *args: P.args, **kwargs: P.kwargs) -> T:
        peek = self._peek
        return await runner.run(
            # Made anew for each try: a generator that has run cannot begin again.
            lambda d: self._program(d, *args, **kwargs),
            self._how,
            None if peek is None else lambda d: peek(d, *args, **kwargs),
        )


def transition(
    program: Callable[Concatenate[Dialect, P], Steps[T]],
    how: How = WRITES,
    *,
    peek: Callable[Concatenate[Dialect, P], Steps[T | None]] | None = None,
) -> Transition[P, T]:
    """The method of a store that runs ``program`` in one transaction.

    ``peek`` is a program that only reads and may answer instead, which spares SQLite the write
    lock: None means that it does not know.
    """
    return Transition(program, how, peek)


def ask(query: Query, *, last: bool = False) -> Steps[Rows]:
    """Send one statement; returns its rows."""
    (rows,) = yield Send((query,), last)
    return rows


def one(query: Query) -> Steps[Rows]:
    """A transaction of one statement."""
    return (yield from ask(query, last=True))


def said(query: Query) -> Queries[Sequence[Row]]:
    """Send a statement if its database needs it; returns its rows."""
    return () if query.statement.nothing else (yield query)


def one_at_a_time(steps: Steps[T]) -> Queries[T]:
    """Run a program on a connection of the caller's, one statement after the other."""
    try:
        # ``last`` means nothing here: the commit is the caller's.
        send = next(steps)
        while True:
            rows: list[Rows] = []
            for query in send.queries:
                answer = yield query
                rows.append(list(answer))
            send = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


def in_schema(steps: Queries[T], schema: str) -> Queries[T]:
    """``steps`` on the tables of a schema, in a database without schemas."""
    # The texts have this name already, so none has to be rendered again.
    if schema == DEFAULT_SCHEMA:
        return (yield from steps)
    try:
        query = next(steps)
        while True:
            named = replace(query, statement=prefixed(query.statement, schema))
            try:
                rows = yield named
            # Given up from outside: the inner steps end here and not when they are collected.
            except GeneratorExit:
                steps.close()
                raise
            except Exception as error:  # noqa: BLE001 - it is raised again there
                query = steps.throw(error)
            else:
                query = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


def embed(steps: Queries[T]) -> Steps[T]:
    """Run one-at-a-time steps as a part of a transaction of our own."""
    try:
        query = next(steps)
        while True:
            try:
                rows = yield from ask(query)
            # The outer steps were given up, so the inner ones end here and not when they are
            # collected.
            except GeneratorExit:
                steps.close()
                raise
            query = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
