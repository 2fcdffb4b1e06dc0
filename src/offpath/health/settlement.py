"""``app.settlements``: runs that credit the records of a period once, and say how it went.

A *settlement run* credits users (rebate, cashback, lossback, a kind of your own). It has nothing to
do with a *settlement*, which is how an attempt of a job ended.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from msgspec import Struct

from offpath.errors import InvalidArgument, SettlementFailed
from offpath.health.crediting_run import (
    Calculate,
    Credit,
    CreditingRun,
    Record,
    Records,
    RunDefinition,
)
from offpath.model import checks
from offpath.model.health import SettlementReport
from offpath.model.settlement_counts import SettlementOutcome
from offpath.model.settlement_period import Period, PeriodUnit, parse_period
from offpath.model.settlement_run import SettlementStatus, SettlementSummary, failure_text, run_kind
from offpath.runtime.clock import Clock
from offpath.runtime.log import logger
from offpath.runtime.metrics import Metrics
from offpath.runtime.tasks import Report
from offpath.runtime.zones import zone_of

T = TypeVar("T", bound=Record)
T_co = TypeVar("T_co", bound=Record, covariant=True)
C = TypeVar("C", bound=Callable[[Any], Any])

MAX_CONCURRENCY = 1_000
_log = logger("settlement")


class KindInfo(Struct, frozen=True, kw_only=True):
    """A kind of settlement run as it was defined."""

    kind: str
    zone: str
    unit: PeriodUnit | None
    """The only kind of period that it allows; None for any."""
    concurrency: int
    timeout: float | None
    """Seconds that one credit may take."""


class SettlementRuns:
    """The kinds of settlement runs of an app: defined, run, and judged by their last run."""

    def __init__(
        self,
        clock: Callable[[], Clock],
        metrics: Metrics,
        report: Report,
        keep: Callable[[SettlementSummary], Awaitable[None]] | None = None,
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._metrics = metrics
        self._report = report
        self._definitions: dict[str, RunDefinition[Any]] = {}
        self._statuses: dict[str, SettlementStatus] = {}

    @overload
    def define(
        self,
        kind: str,
        *,
        records: Records[T],
        credit: Credit,
        calculate: Calculate[T],
        zone: str = ...,
        unit: PeriodUnit | str | None = ...,
        concurrency: int = ...,
        timeout: float | timedelta | None = ...,
    ) -> None: ...
    @overload
    def define(
        self,
        kind: str,
        *,
        records: Records[Any],
        credit: Credit,
        zone: str = ...,
        unit: PeriodUnit | str | None = ...,
        concurrency: int = ...,
        timeout: float | timedelta | None = ...,
    ) -> Callable[[C], C]: ...
    def define(
        self,
        kind: str,
        *,
        records: Records[Any],
        credit: Credit,
        calculate: Calculate[Any] | None = None,
        zone: str = "UTC",
        unit: PeriodUnit | str | None = None,
        concurrency: int = 1,
        timeout: float | timedelta | None = 30.0,
    ) -> Any:
        """Define a kind; without ``calculate`` it is a decorator of that function.

        ``records`` is an async generator function of the period (see :func:`paged`), whose records
        have an ``id`` and a ``user``. ``calculate`` gives the amount of one in whole minor units; 0
        means not eligible. ``credit`` is the port: ``await credit(user, amount, key)``. Midnights
        are those of ``zone``. ``unit`` allows one kind of period only, so that nobody credits a
        month and then its days again. At most ``concurrency`` credits at once, each at most
        ``timeout`` seconds; after that its outcome is unknown and the next run asks by the key.

        Raises ``InvalidArgument``, also when the kind is defined already.
        """
        if calculate is None:
            return self._decorator(
                kind,
                records,
                credit,
                zone=zone,
                unit=unit,
                concurrency=concurrency,
                timeout=timeout,
            )
        if run_kind(kind) in self._definitions:
            raise InvalidArgument(f"settlement runs of the kind {kind!r} are defined already")
        self._definitions[kind] = RunDefinition(
            kind=kind,
            records=_streaming(records),
            calculate=_callable(calculate, "calculate"),
            credit=_callable(credit, "credit"),
            zone=zone_of(zone),
            unit=None if unit is None else _unit(unit),
            concurrency=_concurrency(concurrency),
            timeout=None if timeout is None else checks.seconds(timeout, "timeout"),
        )
        return None

    def _decorator(
        self,
        kind: str,
        records: Records[Any],
        credit: Credit,
        **terms: Any,  # noqa: ANN401 - define's own
    ) -> Callable[[C], C]:
        def decorate(calculate: C) -> C:
            self.define(kind, records=records, credit=credit, calculate=calculate, **terms)
            return calculate

        return decorate

    def __contains__(self, kind: object) -> bool:
        """True if a kind is defined."""
        return kind in self._definitions

    def __len__(self) -> int:
        """The number of kinds that are defined."""
        return len(self._definitions)

    def period(self, kind: str, period: str | Period) -> Period:
        """A period of a kind, in its zone. Raises ``InvalidArgument`` for one it cannot have."""
        definition = self._named(kind)
        zone = definition.zone
        if not isinstance(period, Period):
            period = parse_period(period, zone, zone.key)
        if definition.unit not in {None, period.unit}:
            raise InvalidArgument(
                f"{kind} is run by the {definition.unit}, and {period.name} is a {period.unit}: "
                "crossing periods would credit a record twice"
            )
        return period

    async def run(
        self, kind: str, period: str | Period, *, concurrency: int | None = None
    ) -> SettlementSummary:
        """Credit what is eligible in a period and not credited yet; returns the counts.

        A clean or degraded run returns; :meth:`SettlementSummary.require_clean` refuses the second.
        Safe to repeat, and safe beside another run of the same kind and period: each credit has
        the key (kind, period, record).

        Raises ``SettlementFailed`` when records were eligible and all of them failed, or when the
        records could not be read to their end; ``InvalidArgument`` for an unknown kind or period.
        """
        definition = self._named(kind)
        if concurrency is not None:
            concurrency = _concurrency(concurrency)
        clock = self._clock()
        run = CreditingRun(definition, self.period(kind, period), clock, self._metrics)
        began, started_at = clock.monotonic(), clock.now()
        try:
            await run.to_its_end(concurrency or definition.concurrency)
        finally:
            summary = run.summary(started_at, clock.monotonic() - began)
            self._ended(summary, clock.now())
        for error in run.causes.values():
            self._report(error, f"settlement run {kind}")
        await self._kept(summary)
        if summary.outcome is SettlementOutcome.FAILED:
            first = next(iter(run.causes.values()), None)
            raise SettlementFailed(failure_text(summary), summary=summary) from first
        return summary

    def kinds(self) -> list[KindInfo]:
        """The kinds that are defined, in the order of definition."""
        return [
            KindInfo(
                kind=one.kind,
                zone=one.zone.key,
                unit=one.unit,
                concurrency=one.concurrency,
                timeout=one.timeout,
            )
            for one in self._definitions.values()
        ]

    def statuses(self) -> list[SettlementStatus]:
        """Every kind in the order of definition, with its last run in this process."""
        return [self.status(kind) for kind in self._definitions]

    def status(self, kind: str) -> SettlementStatus:
        """The status of the last run of a kind. Raises ``InvalidArgument`` for an unknown one."""
        self._named(kind)
        return self._statuses.get(kind) or SettlementStatus(
            kind=kind, verdict=None, last=None, last_success=None, consecutive_failures=0
        )

    def reports(self) -> tuple[SettlementReport, ...]:
        """The last run of each kind that ran here, for the health of a worker beside it."""
        return tuple(
            SettlementReport(
                kind=status.kind,
                period=status.last.period,
                verdict=status.last.verdict,
                started_at=status.last.started_at,
                consecutive_failures=status.consecutive_failures,
                cause=status.last.cause,
                **status.last.counts(),
            )
            for status in tuple(self._statuses.values())
            if status.last is not None
        )

    def _named(self, kind: str) -> RunDefinition[Any]:
        if (found := self._definitions.get(kind)) is not None:
            return found
        import difflib

        near = difflib.get_close_matches(str(kind), self._definitions, n=3)
        known = ", ".join(near or sorted(self._definitions)[:10]) or "none is defined"
        raise InvalidArgument(f"there are no settlement runs of the kind {kind!r}; known: {known}")

    def _ended(self, summary: SettlementSummary, now: datetime) -> None:
        before, clean = self.status(summary.kind), summary.outcome is SettlementOutcome.CLEAN
        status = self._statuses[summary.kind] = SettlementStatus(
            kind=summary.kind,
            verdict=summary.verdict,
            last=summary,
            last_success=now if clean else before.last_success,
            consecutive_failures=0 if clean else before.consecutive_failures + 1,
        )
        self._measure(status, summary, now)
        _tell(summary)

    async def _kept(self, summary: SettlementSummary) -> None:
        """Keep how it went where people look; what cannot be kept hinders nothing."""
        if self._keep is None:
            return
        try:
            await self._keep(summary)
        except Exception as error:  # noqa: BLE001 - the credits are made; this is for people
            self._report(error, f"settlement run {summary.kind}")

    def _measure(self, status: SettlementStatus, summary: SettlementSummary, now: datetime) -> None:
        kind, outcome = summary.kind, summary.outcome.value
        metrics = self._metrics
        metrics.counter("offpath_settlement_runs_total", kind=kind, outcome=outcome).add()
        failures = metrics.gauge("offpath_settlement_consecutive_failures", kind=kind)
        failures.set(status.consecutive_failures)
        if status.last_success == now:
            moment = metrics.gauge("offpath_settlement_last_success_timestamp_seconds", kind=kind)
            moment.set(now.timestamp())


_LEVELS = {
    SettlementOutcome.CLEAN: logging.INFO,
    SettlementOutcome.DEGRADED: logging.WARNING,
    SettlementOutcome.FAILED: logging.ERROR,
}
_NAMED = 5
"""The number of failed records that a log line names."""


def _tell(summary: SettlementSummary) -> None:
    """One structured line per run; never an amount, a user, or an error's text."""
    failed = ", ".join(f"{one.record}: {one.error}" for one in summary.failures[:_NAMED])
    more = ", …" if len(summary.failures) > _NAMED else ""
    counts = summary.counts()
    _log.log(
        _LEVELS[summary.outcome],
        "settlement run %s for %s is %s: %s%s",
        summary.kind,
        summary.period,
        summary.outcome.value,
        ", ".join(f"{number} {name}" for name, number in counts.items()),
        f" [{failed}{more}]" if failed else "",
        extra={
            "kind": summary.kind,
            "period": summary.period,
            "outcome": summary.outcome.value,
            "stopped_by": summary.stopped_by,
            **counts,
        },
    )


def paged(fetch: Callable[..., Any], *, limit: int = 500) -> Callable[[Period], Any]:
    """Records read page by page: ``records=paged(fetch)``, so that no query stays open.

    ``await fetch(period, after=None, limit=500)`` gives the first page in the order of the ids, and
    after that the records whose id is above ``after``; an empty page is the end.
    """
    size = checks.integer(limit, "limit", least=1, most=100_000)

    async def records(period: Period) -> AsyncIterator[T]:
        after: str | None = None
        while page := await fetch(period, after=after, limit=size):
            for record in page:
                yield record
            after = _further(page, after)

    return records


def _further(page: Sequence[Record], after: str | None) -> str:
    last = page[-1].id
    if last == after:
        raise InvalidArgument(f"the page after {after!r} ends with it again: use `id > after`")
    return last


def _streaming(records: Records[Any]) -> Records[Any]:
    if inspect.iscoroutinefunction(records):
        raise InvalidArgument(
            "records must be an async generator function: `yield` each record, "
            "or give paged(fetch) for a function that returns pages"
        )
    return _callable(records, "records")


F = TypeVar("F")


def _callable(value: F, what: str) -> F:
    if not callable(value):
        raise InvalidArgument(f"{what} must be a function, not {type(value).__name__}")
    return value


def _unit(unit: PeriodUnit | str) -> PeriodUnit:
    try:
        return PeriodUnit(unit)
    except ValueError as error:
        known = ", ".join(PeriodUnit)
        raise InvalidArgument(f"unit must be one of {known}, not {unit!r}") from error


def _concurrency(value: int) -> int:
    return checks.integer(value, "concurrency", least=1, most=MAX_CONCURRENCY)
