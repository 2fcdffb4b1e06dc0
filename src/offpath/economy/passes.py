"""The sweeps of an economy as a host calls them: each alone, all together, or by its app."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offpath.economy import pauses
from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass
from offpath.economy.sweeps.prune import PRUNE_BATCH, PruneLedger
from offpath.economy.sweeps.runs import SWEEP_NAMES, EconomyRun, EconomySweeps, SweepInput
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
from offpath.economy.worker import EconomyWorker
from offpath.jobs.client.core import core_of
from offpath.model.health import window_of
from offpath.model.tally import Tally
from offpath.sweeps.context import SweepContext
from offpath.sweeps.registry import Sweep, SweepInfo

if TYPE_CHECKING:
    from offpath.economy.ledger.ports import Ports
    from offpath.economy.ledger.rules import Rules
    from offpath.economy.ledger.settings import EconomySettings
    from offpath.model.ledger.decision import Decided, LedgerOp

S_co = TypeVar("S_co", covariant=True)

PREFIX = "economy."
"""The prefix of the names of these sweeps among the app's."""
_DRIVEN_BY_THE_APP = frozenset({"relay", "drain_inbox"})
"""A worker has loops for every stream and source of the app."""
_EVERY = {"payouts": 5.0, "subscriptions": 5.0, "promos": 5.0}
"""Seconds from one look to the next when nothing was due; others: ``worker_interval``."""
PASS_TIMEOUT = 600.0
"""Seconds for one pass of a loop; each call of a port has a shorter limit of its own."""
PROOF_TIMEOUT = 7_200.0
"""Seconds for a pass that proves chains: the first seal replays the whole ledger."""
_PROVING = frozenset({"checkpoint", "checkpoint_verify"})


class EconomyVerbs:
    """The verbs that an economy offers for its sweeps."""

    app: Any
    rules: Rules
    settings: EconomySettings
    ports: Ports

    def new_id(self) -> str:
        """A new id."""
        raise NotImplementedError

    async def run_op(self, op: LedgerOp) -> Decided:
        """Decide one operation, in a batch with whatever else is submitted at the same time."""
        raise NotImplementedError

    def report(self, error: BaseException, phase: str) -> None:
        """Tell the app's ``on_error`` and log of an error that is survived."""
        core_of(self.app).report(error, phase)

    @cached_property
    def sweeps(self) -> EconomySweeps:
        """The sweeps; see also the functions of :mod:`offpath.economy`."""
        return EconomySweeps(self)

    async def run_sweeps(self, asked: SweepInput | None = None, /) -> EconomyRun:
        """Run every sweep once, one after the other in the order of ``SWEEP_NAMES``.

        A sweep that fails is told in its result and stops none of the others; a run raises nothing
        but ``InvalidArgument``, before anything is done.
        """
        await self.app.open()
        return await self.sweeps.run(asked or SweepInput())

    async def pause(self, *, until: datetime | None = None) -> None:
        """Have the sweeps rest on every worker of the fleet, until a time or :meth:`resume`.

        It is kept in the store. Runs by hand (:meth:`run_sweeps`, the functions) still run;
        the app's relay and inbox go on. Raises ``InvalidArgument`` for a time without a zone.
        """
        await self.app.open()
        await pauses.pause(self.app.store(), until)

    async def resume(self) -> bool:
        """Have the sweeps go on. False: they were not paused."""
        await self.app.open()
        return await pauses.resume(self.app.store())

    async def paused(self) -> bool:
        """True if the sweeps rest."""
        await self.app.open()
        return await pauses.paused(self.app.store(), self.app.clock.now())

    def worker(self) -> EconomyWorker:
        """The worker that runs the sweeps again and again, in a host without ``offpath worker``."""
        return EconomyWorker(self.run_sweeps, self.app.clock, self.report, self.paused)

    def register_sweeps(self) -> None:
        """Have the app's workers drive the sweeps: each by a loop, on one worker of the fleet.

        With them comes one that removes what is too old to count. Raises ``InvalidArgument`` when
        the app has an economy already.
        """
        telemetry.known(self.app.metrics)
        for name in SWEEP_NAMES:
            self._register(name, AppSweep(self, name), self.settings.worker_batch)
        self._register("prune", PruneLedger(self), PRUNE_BATCH)

    def _register(self, name: str, target: object, limit: int) -> None:
        every = _EVERY.get(name, self.settings.worker_interval)
        longest = PROOF_TIMEOUT if name in _PROVING else PASS_TIMEOUT
        info = SweepInfo(
            name=f"{PREFIX}{name}",
            every=every,
            limit=limit,
            claim_timeout=longest,
            window=window_of(every) + longest,
            by_rows=False,
        )
        driven = name not in _DRIVEN_BY_THE_APP
        self.app.sweeps.add(Sweep(info=info, target=target, driven=driven))
        core_of(self.app).sweep_added(info.name)


class AppSweep:
    """One sweep of an economy as a sweep of its app: a bounded pass that gives a tally."""

    def __init__(self, economy: EconomyVerbs, name: str) -> None:
        self._economy = economy
        self._name = name

    def skip(self) -> str | None:
        """Say that there is nothing to do it with, if so."""
        return _absent(self._economy, self._name)

    async def run(self, _ctx: SweepContext, now: datetime, limit: int) -> Tally:
        """One pass over up to ``limit`` rows; none while the economy is paused. Never ahead of the
        store's clock.
        """
        if await self._economy.paused():
            return Tally(skipped="the economy is paused")
        sweeps = self._economy.sweeps
        run = sweeps.new_pass(min(now, await sweeps.now()), limit)
        summary = await sweeps.sweep(self._name, run)
        return counted(summary, run)


def counted(summary: SweepSummary, run: Pass) -> Tally:
    """A summary as a tally, with what the pass posted and whether there may be more."""
    tally = summary.tally()
    return Tally(
        buckets=tally.buckets,
        bad=tally.bad,
        reasons=tally.reasons,
        facts=tally.facts,
        postings=tuple(run.postings),
        more=run.more,
    )


def _absent(economy: EconomyVerbs, name: str) -> str | None:
    ports = economy.ports
    match name:
        case "payouts" if ports.provider is None:
            return "the economy has no provider"
        case "checkpoint" | "checkpoint_verify" if ports.signer is None:
            return "the economy has no signer"
        case "reconcile":
            return "windows are given by hand: economy.run_sweeps(SweepInput(windows=...))"
        case _:
            return None


class _Swept(Protocol[S_co]):
    """A sweep as a function of its own."""

    async def __call__(
        self,
        economy: EconomyVerbs,
        *,
        now: datetime | None = None,
        limit: int | None = None,
        windows: Iterable[Window] = (),
    ) -> S_co:
        """One pass; ``now`` and ``limit`` as in :class:`SweepInput`."""
        ...


K = TypeVar("K")


def _alone(name: str, kind: type[K], doc: str) -> _Swept[K]:
    async def swept(
        economy: EconomyVerbs,
        *,
        now: datetime | None = None,
        limit: int | None = None,
        windows: Iterable[Window] = (),
    ) -> K:
        await economy.app.open()
        sweeps = economy.sweeps
        at = await sweeps.now() if now is None else now
        summary = await sweeps.sweep(name, sweeps.new_pass(at, limit, windows))
        assert isinstance(summary, kind)  # noqa: S101 - each sweep has its own
        return summary

    swept.__doc__ = f"{doc} ``now`` and ``limit`` are as in :class:`SweepInput`."
    return swept


settle_due_payouts = _alone(
    "payouts",
    PayoutsSummary,
    "Take due payouts one step: to the provider, or to what the provider says of them.",
)
renew_subscriptions = _alone(
    "subscriptions", SubscriptionsSummary, "Charge the next period of due subscriptions."
)
check_treasury = _alone("treasury", TreasurySummary, "Compare cash with obligations.")
sweep_fees_due = _alone(
    "fee_sweep", FeesSummary, "Realise as much of the platform's revenue as is matured and covered."
)
verify_checkpoint = _alone(
    "checkpoint_verify",
    VerifySummary,
    "Verify that the ledger only grew since the last checkpoint.",
)
seal_checkpoint = _alone("checkpoint", SealSummary, "Seal where every chain stands.")
relay_outbox = _alone("relay", RelaySummary, "Hand due events to their dispatcher.")
drain_inbox = _alone("drain_inbox", InboxSummary, "Apply the operations that came in.")
reconcile_windows = _alone(
    "reconcile", ReconcileSummary, "Compare windows with the feed; ``windows`` says which."
)
expire_promos = _alone("promos", PromosSummary, "Take back what is left of expired grants.")
