"""One sweep of an economy, as a worker of its app drives it and as somebody runs it by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.ports import PortCalls
from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps.context import Pass, SweptEconomy, expected
from offpath.economy.sweeps.summaries import SweepSummary
from offpath.errors import InvalidArgument, OffpathError
from offpath.model import checks
from offpath.model.ledger.faults import LedgerError, StoreFailed
from offpath.model.tally import Tally
from offpath.sweeps.context import SweepContext
from offpath.sweeps.registry import MOST_ROWS

Work = Callable[[Pass], Awaitable[SweepSummary]]
PASS_TIMEOUT = 600.0
"""Seconds for one pass of a loop; each call of a port has a shorter limit of its own."""


class DrivingTerms(Struct, frozen=True, kw_only=True):
    """The way in which workers drive a sweep of an economy."""

    name: str
    every: float | None = None
    """Seconds from one look to the next when nothing was due; None: ``worker_interval``."""
    limit: int | None = None
    """Most rows of a pass; None: ``worker_batch``."""
    longest: float = PASS_TIMEOUT
    """Seconds for one pass of a worker."""
    driven: bool = True
    """False: the app's workers have loops of their own for the same messages."""


class EconomySweepTerms(DrivingTerms, frozen=True, kw_only=True):
    """A sweep of an economy: how workers drive it, and what it does."""

    work: Work
    needs: str | None = None
    """The port without which it has nothing to do."""
    absent: str | None = None
    """The reason why a worker never has anything to do with it."""


class EconomySweep:
    """A bounded pass whose tally carries its summary. Its passes never overlap."""

    def __init__(self, terms: EconomySweepTerms, economy: SweptEconomy, calls: PortCalls) -> None:
        self.terms = terms
        self._economy = economy
        self._calls = calls
        self._passing = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name in a run of the economy's sweeps."""
        return self.terms.name

    def skip(self) -> str | None:
        """Say that there is nothing to do it with, if so."""
        needs = self.terms.needs
        if needs is not None and getattr(self._economy.ports, needs) is None:
            return f"the economy has no {needs}"
        return self.terms.absent

    async def run(self, _ctx: SweepContext, now: datetime, limit: int) -> Tally:
        """One pass over up to ``limit`` rows; none while the economy is paused. Never ahead of the
        store's clock.
        """
        if await self._economy.paused():
            return Tally(skipped="the economy is paused")
        return await self.move(self.new_pass(min(now, await store_time(self._economy)), limit))

    def new_pass(
        self, now: datetime, limit: int | None = None, windows: Iterable[Window] = ()
    ) -> Pass:
        """A pass, with checked arguments. Raises ``InvalidArgument``."""
        rows = self._economy.settings.worker_batch if limit is None else limit
        return Pass(
            self._economy,
            self._calls,
            now=checks.aware(now, "now"),
            limit=checks.integer(rows, "limit", least=1, most=MOST_ROWS),
            windows=_checked(windows),
        )

    async def move(self, run: Pass) -> Tally:
        """Make a pass. Raises what it cannot tell in its summary."""
        async with self._passing:
            summary = await self.terms.work(run)
        return replace(
            summary.tally(), summary=summary, postings=tuple(run.postings), more=run.more
        )


class SweepByHand:
    """One sweep in a run by hand: what it raises is a fault of the ledger."""

    def __init__(self, sweep: EconomySweep, windows: tuple[Window, ...]) -> None:
        self.name = sweep.name
        self.postings: list[str] = []
        """Ids of what it posted, also when it failed later."""
        self._sweep = sweep
        self._windows = windows

    async def run(self, now: datetime, limit: int | None) -> Tally:
        """One pass. Raises a ``LedgerError``."""
        run = self._sweep.new_pass(now, limit, self._windows)
        self.postings = run.postings
        try:
            return await self._sweep.move(run)
        except LedgerError:
            raise
        except Exception as error:
            if not expected(error):
                run.report(error, f"economy:{self.name}")
            raise StoreFailed(f"the sweep {self.name} failed") from error


async def store_time(economy: SweptEconomy) -> datetime:
    """The store's clock: a worker whose own is wrong must neither charge early nor give up a
    payout that the provider has. While the store is away, the app's.
    """
    try:
        told: datetime = await economy.app.store().ping()
    except OffpathError:
        return economy.app.clock.now()  # type: ignore[no-any-return]  # the app's
    return told


def _checked(windows: Iterable[Any]) -> tuple[Window, ...]:
    wanted = tuple(windows)
    if wrong := [type(one).__name__ for one in wanted if not isinstance(one, Window)]:
        raise InvalidArgument(f"windows are Window(since=..., until=...), not {wrong[0]}")
    return wanted
