"""One settlement run: records are streamed, and each is credited within its own boundary."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from offpath.errors import InvalidArgument, OffpathError
from offpath.model import checks
from offpath.model.settlement_counts import FailedCredit
from offpath.model.settlement_period import Period, PeriodUnit
from offpath.model.settlement_run import (
    MAX_FAILURES,
    AlreadyCredited,
    CreditAnswer,
    Credited,
    SettlementSummary,
    credit_amount,
    credit_key,
)
from offpath.runtime.clock import Clock
from offpath.runtime.metrics import Metrics

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


class Record(Protocol):
    """The facts of a record that a run needs."""

    @property
    def id(self) -> str:
        """The identity of the record within its kind and period."""
        ...

    @property
    def user(self) -> str:
        """The user that is credited."""
        ...


T = TypeVar("T", bound=Record)

Records = Callable[[Period], AsyncIterable[T]]
"""Gives the records of a period, one after the other."""

Calculate = Callable[[T], int | Awaitable[int]]
"""The amount of one record in whole minor units; 0 when it is not eligible."""

MAX_CAUSES = 10
"""The number of kinds of errors of one run that are reported, each once."""
GRACE = 1.0
"""Seconds that a cancelled credit may take to end before it is left alone."""


class Credit(Protocol):
    """The port to whoever holds the money."""

    async def __call__(self, user: str, amount: int, key: str, /) -> CreditAnswer:
        """Give ``user`` the ``amount`` (minor units, over 0), once for each ``key``.

        All of it in one transaction: the key is recorded with the credit or not at all. A key that
        was used before, also by a call that runs at the same time, answers ``AlreadyCredited`` and
        changes nothing; with another user or amount it raises. Anything raised counts as a failed
        credit, to be tried again by the next run.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefinition(Generic[T]):
    """A kind of settlement run."""

    kind: str
    records: Records[T]
    calculate: Calculate[T]
    credit: Credit
    zone: ZoneInfo
    unit: PeriodUnit | None
    concurrency: int
    timeout: float | None


class CreditingRun(Generic[T]):
    """A run from its first record to its last. Holds as many records as it may credit at once."""

    def __init__(
        self, definition: RunDefinition[T], period: Period, clock: Clock, metrics: Metrics
    ) -> None:
        self._definition = definition
        self._period = period
        self._clock = clock
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._stream: AsyncIterator[T] | None = None
        self._over = False
        self._counts = {"credited": 0, "skipped": 0, "failed": 0}
        self._failures: list[FailedCredit] = []
        self._stopped_by: str | None = None
        self.causes: dict[str, Exception] = {}
        """The first error of each type."""

    async def to_its_end(self, concurrency: int) -> None:
        """Credit every record. Raises only what ends the process or cancels the caller."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._work())
        except BaseException as error:
            self._stopped_by = self._stopped_by or type(error).__name__
            raise
        finally:
            await self._close()

    def summary(self, started_at: datetime, seconds: float) -> SettlementSummary:
        """The counts so far."""
        return SettlementSummary(
            kind=self._definition.kind,
            period=self._period.name,
            started_at=started_at,
            seconds=seconds,
            failures=tuple(self._failures),
            stopped_by=self._stopped_by,
            **self._counts,
        )

    async def _work(self) -> None:
        while (found := await self._next()) is not None:
            await self._one(found[0])

    async def _next(self) -> tuple[T] | None:
        """The next record, one caller at a time; None at the end, or where reading failed."""
        async with self._turn:
            if self._over:
                return None
            try:
                if self._stream is None:
                    self._stream = _stream_of(self._definition.records(self._period))
                return (await anext(self._stream),)
            except StopAsyncIteration:
                self._over = True
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                self._stop_reading(CancelledInside("reading the records was cancelled"))
            except Exception as error:  # noqa: BLE001 - it ends the run as failed
                self._stop_reading(error)
            return None

    def _stop_reading(self, error: Exception) -> None:
        self._over = True
        self._stopped_by = type(error).__name__
        self._note(error)

    async def _one(self, record: T) -> None:
        try:
            bucket = await self._credited(record)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            bucket = self._failed(record, CancelledInside("the calculation was cancelled"))
        except Exception as error:  # noqa: BLE001 - counted and reported; the others go on
            bucket = self._failed(record, error)
        if bucket is not None:
            self._count(bucket)

    def _failed(self, record: T, error: Exception) -> str:
        self._note(error)
        if len(self._failures) < MAX_FAILURES:
            name = str(getattr(record, "id", "?"))[: checks.MAX_NAME]
            self._failures.append(FailedCredit(record=name, error=type(error).__name__))
        return "failed"

    async def _credited(self, record: T) -> str | None:
        """The outcome of a record: the name of its count, None when it is not eligible."""
        made = self._definition.calculate(record)
        amount = credit_amount(await made if inspect.isawaitable(made) else made)
        if amount == 0:
            return None
        key = credit_key(self._definition.kind, self._period, record.id)
        user = checks.name(record.user, "a record's user")
        match await self._limited(self._definition.credit(user, amount, key)):
            case Credited():
                return "credited"
            case AlreadyCredited():
                return "skipped"
            case other:
                # Whoever answers nothing may have done nothing: that is not a success.
                raise InvalidArgument(
                    "credit must return Credited() or AlreadyCredited(), "
                    f"not {type(other).__name__}"
                )

    async def _limited(self, work: Coroutine[Any, Any, CreditAnswer]) -> CreditAnswer:
        """Do the work in a task of its own, for at most the timeout of the kind."""
        task = asyncio.ensure_future(work)
        ended = asyncio.Event()
        task.add_done_callback(_looked_at)
        task.add_done_callback(lambda _: ended.set())
        try:
            await self._clock.wait(ended, self._definition.timeout)
        finally:
            if not task.done():
                task.cancel()
                await self._clock.wait(ended, GRACE)
        if task.done() and not task.cancelled():
            return task.result()
        raise TimeoutError("the credit took too long, or was cancelled from inside")

    def _note(self, error: Exception) -> None:
        if len(self.causes) < MAX_CAUSES:
            self.causes.setdefault(type(error).__name__, error)

    def _count(self, bucket: str) -> None:
        self._counts[bucket] += 1
        kind = self._definition.kind
        self._metrics.counter("offpath_settlement_attempted_total", kind=kind).add()
        self._metrics.counter(_COUNTERS[bucket], kind=kind).add()

    async def _close(self) -> None:
        """A generator that was not read to its end gives back what it holds."""
        close = getattr(self._stream, "aclose", None)
        if close is None:
            return
        try:
            await close()
        except Exception as error:  # noqa: BLE001 - it ends the run as failed
            self._stopped_by = self._stopped_by or type(error).__name__
            self._note(error)


class CancelledInside(OffpathError):
    """Something that a run awaited was cancelled, though nobody had stopped the run.

    A task group takes a cancelled task for one that ended well: without this the rest of the
    records would be missing from a run that calls itself clean.
    """

    code = "settlement_cancelled_inside"
    retryable = True


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_COUNTERS = {
    "credited": "offpath_settlement_credited_total",
    "failed": "offpath_settlement_failed_total",
    "skipped": "offpath_settlement_skipped_total",
}


def _stream_of(records: AsyncIterable[T] | object) -> AsyncIterator[T]:
    if not isinstance(records, AsyncIterable):
        kind = type(records).__name__
        raise InvalidArgument(f"records must give an async iterator of records, not {kind}")
    return aiter(records)


def _looked_at(task: asyncio.Future[Any]) -> None:
    """Look at how a credit ended: asyncio complains of an abandoned one otherwise."""
    if not task.cancelled():
        task.exception()
