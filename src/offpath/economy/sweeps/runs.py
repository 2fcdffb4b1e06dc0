"""The ten sweeps of an economy: one after the other in a fixed order, none able to stop the next.

The order matters: what is verified is the seal of the run before, and what the first ones publish
the relay hands on in the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from offpath.economy.ledger.ports import PortCalls
from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.checkpoint import checkpoint
from offpath.economy.sweeps.checkpoint_verify import checkpoint_verify
from offpath.economy.sweeps.context import Pass, SweptEconomy, code_of, expected, retryable
from offpath.economy.sweeps.drain_inbox import drain_inbox, drain_mover
from offpath.economy.sweeps.fee_sweep import fee_sweep
from offpath.economy.sweeps.payouts import payouts
from offpath.economy.sweeps.promos import promos
from offpath.economy.sweeps.reconcile import reconcile
from offpath.economy.sweeps.relay import relay, relay_mover
from offpath.economy.sweeps.subscriptions import subscriptions
from offpath.economy.sweeps.summaries import (
    FeesSummary,
    InboxSummary,
    PayoutsSummary,
    PromosSummary,
    ReconcileSummary,
    RelaySummary,
    SealSummary,
    SubscriptionsSummary,
    SweepSummary,
    TreasurySummary,
    VerifySummary,
)
from offpath.economy.sweeps.treasury import treasury
from offpath.errors import InvalidArgument, OffpathError
from offpath.model import checks
from offpath.sweeps.registry import MOST_ROWS

IDLE: Final[dict[str, SweepSummary]] = {
    "payouts": PayoutsSummary(),
    "subscriptions": SubscriptionsSummary(),
    "treasury": TreasurySummary(),
    "fee_sweep": FeesSummary(),
    "checkpoint_verify": VerifySummary(),
    "checkpoint": SealSummary(),
    "relay": RelaySummary(),
    "drain_inbox": InboxSummary(),
    "reconcile": ReconcileSummary(),
    "promos": PromosSummary(),
}
"""The report of a sweep that had nothing to do, or was not asked for."""
SWEEP_NAMES: Final = tuple(IDLE)
"""The sweeps, in the order in which they run."""

Sweep = Callable[[Pass], Awaitable[SweepSummary]]


class SweepInput(Struct, frozen=True, kw_only=True):
    """The request of one run of the sweeps."""

    now: datetime | None = None
    """By which everything is claimed and decided; None: the store's clock, read once."""
    limit: int | None = None
    """Most rows of each sweep; None: the setting ``worker_batch``."""
    only: str | Iterable[str] | None = None
    """Sweeps to run; the others report that they were idle. None: all."""
    windows: tuple[Window, ...] = ()
    """The windows that ``reconcile`` compares."""


class EconomyResult(Struct, frozen=True, kw_only=True):
    """The result of one sweep: its summary, or the code of what it raised."""

    name: str
    summary: SweepSummary | None = None
    code: str | None = None
    retryable: bool = False
    more: bool = False
    """True if its page was full, so that there may be more due at once."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if it came to its end; rows may have failed all the same."""
        return self.code is None


class EconomyRun(Struct, frozen=True, kw_only=True):
    """The results of a run of the sweeps: ``batch, postings = await worker.run_once(...)``."""

    batch: tuple[EconomyResult, ...]
    """One result for each of :data:`SWEEP_NAMES`, in their order."""
    postings: tuple[str, ...] = ()
    """Ids of all postings that the run made."""

    def __iter__(self) -> Iterator[Any]:
        """Give both parts."""
        return iter((self.batch, self.postings))

    def __getitem__(self, name: str) -> EconomyResult:
        """The result of a sweep; raises KeyError when there is none of this name."""
        for result in self.batch:
            if result.name == name:
                return result
        raise KeyError(name)


class EconomySweeps:
    """The sweeps of one economy in one process. Passes of the same sweep never overlap."""

    def __init__(self, economy: SweptEconomy) -> None:
        self._economy = economy
        self._calls = PortCalls(lambda: economy.app.clock)  # tests may swap the app's clock
        relaying, draining = relay_mover(economy), drain_mover(economy)
        self._sweeps: dict[str, Sweep] = {
            "payouts": payouts,
            "subscriptions": subscriptions,
            "treasury": treasury,
            "fee_sweep": fee_sweep,
            "checkpoint_verify": checkpoint_verify,
            "checkpoint": checkpoint,
            "relay": lambda run: relay(run, relaying),
            "drain_inbox": lambda run: drain_inbox(run, draining),
            "reconcile": reconcile,
            "promos": promos,
        }
        self._locks = {name: asyncio.Lock() for name in SWEEP_NAMES}

    def new_pass(
        self,
        now: datetime | None = None,
        limit: int | None = None,
        windows: Iterable[Window] = (),
    ) -> Pass:
        """A pass, with checked arguments. Raises ``InvalidArgument``."""
        economy = self._economy
        given = economy.app.clock.now() if now is None else checks.aware(now, "now")
        rows = economy.settings.worker_batch if limit is None else limit
        return Pass(
            economy,
            self._calls,
            now=given,
            limit=checks.integer(rows, "limit", least=1, most=MOST_ROWS),
            windows=_checked(windows),
        )

    async def now(self) -> datetime:
        """The store's clock: a worker whose own is wrong must neither charge early nor give up a
        payout that the provider has. While the store is away, the app's.
        """
        economy = self._economy
        try:
            told: datetime = await economy.app.store().ping()
        except OffpathError:
            return economy.app.clock.now()  # type: ignore[no-any-return]  # the app's
        return told

    async def sweep(self, name: str, run: Pass) -> SweepSummary:
        """One sweep on its own. Raises what it cannot tell in its summary."""
        async with self._locks[name]:
            return await self._sweeps[name](run)

    async def run(self, asked: SweepInput) -> EconomyRun:
        """Run the sweeps; raises nothing but ``InvalidArgument``, before anything is done."""
        chosen = chosen_of(asked.only)
        first = self.new_pass(asked.now, asked.limit, asked.windows)
        if asked.now is None:
            first = self.new_pass(await self.now(), first.limit, first.windows)
        batch: list[EconomyResult] = []
        postings: list[str] = []
        for name in SWEEP_NAMES:
            if name in chosen:
                run = self.new_pass(first.now, first.limit, first.windows)
                batch.append(await self._result(name, run))
                postings += run.postings
            else:
                batch.append(EconomyResult(name=name, summary=IDLE[name]))
        telemetry.run_made(first.metrics, sum(not result.ok for result in batch))
        return EconomyRun(batch=tuple(batch), postings=tuple(postings))

    def close(self) -> None:
        """End the threads in which ports were called. Idempotent."""
        self._calls.close()

    async def _result(self, name: str, run: Pass) -> EconomyResult:
        began = run.clock.monotonic()
        try:
            summary = await self.sweep(name, run)
        except Exception as error:  # noqa: BLE001 - this sweep's alone; the others must run
            if not expected(error):
                run.report(error, f"economy:{name}")
            return EconomyResult(
                name=name,
                code=code_of(error),
                retryable=retryable(error),
                seconds=run.clock.monotonic() - began,
            )
        seconds = run.clock.monotonic() - began
        return EconomyResult(name=name, summary=summary, more=run.more, seconds=seconds)


def chosen_of(only: str | Iterable[str] | None) -> frozenset[str]:
    """The sweeps of these names. Raises ``InvalidArgument`` that lists those that there are."""
    if only is None:
        return frozenset(SWEEP_NAMES)
    chosen = frozenset({only} if isinstance(only, str) else only)
    if unknown := sorted(map(repr, chosen.difference(SWEEP_NAMES))):
        raise InvalidArgument(
            f"an economy has no sweep {', '.join(unknown)}; it has: {', '.join(SWEEP_NAMES)}"
        )
    return chosen


def _checked(windows: Iterable[Any]) -> tuple[Window, ...]:
    wanted = tuple(windows)
    if wrong := [type(one).__name__ for one in wanted if not isinstance(one, Window)]:
        raise InvalidArgument(f"windows are Window(since=..., until=...), not {wrong[0]}")
    return wanted
