"""The sweeps of an economy as a host calls them: each alone, all together, or by its app."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offpath.economy import pauses
from offpath.economy.ledger import levers
from offpath.economy.ledger.audit import AuditRecord, NewRecord, Phase, record, trail
from offpath.economy.ledger.mismatches import CONTAINED
from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.containment import Containment
from offpath.economy.sweeps.prune import PRUNE_BATCH, PruneLedger
from offpath.economy.sweeps.runs import EconomyRun, EconomySweeps, SweepInput
from offpath.economy.sweeps.summaries import (
    FeesSummary,
    InboxSummary,
    PayoutsSummary,
    PromosSummary,
    ReconcileSummary,
    RelaySummary,
    SealSummary,
    SubscriptionsSummary,
    TreasurySummary,
    VerifySummary,
)
from offpath.economy.sweeps.sweep import DrivingTerms, store_time
from offpath.economy.worker import EconomyWorker
from offpath.jobs.client.core import core_of
from offpath.model import checks
from offpath.model.health import window_of
from offpath.sweeps.registry import Sweep, SweepInfo

if TYPE_CHECKING:
    from offpath.economy.ledger.ports import Ports
    from offpath.economy.ledger.rules import Rules
    from offpath.economy.ledger.settings import EconomySettings
    from offpath.model.ledger.decision import Decided, LedgerOp

S_co = TypeVar("S_co", covariant=True)

PREFIX = "economy."
"""The prefix of the names of these sweeps among the app's."""


class EconomyVerbs:
    """The verbs that an economy offers for its sweeps."""

    app: Any
    rules: Rules
    settings: EconomySettings
    ports: Ports
    _sweeps: EconomySweeps | None = None

    def new_id(self) -> str:
        """A new id."""
        raise NotImplementedError

    async def run_op(self, op: LedgerOp) -> Decided:
        """Decide one operation, in a batch with whatever else is submitted at the same time."""
        raise NotImplementedError

    def report(self, error: BaseException, phase: str) -> None:
        """Tell the app's ``on_error`` and log of an error that is survived."""
        core_of(self.app).report(error, phase)

    @property
    def sweeps(self) -> EconomySweeps:
        """The sweeps; see also the functions of :mod:`offpath.economy`."""
        if self._sweeps is None:
            self._sweeps = EconomySweeps(self)
        return self._sweeps

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

    async def release(self, reason: str, *, by: str) -> tuple[str, ...]:
        """Have payouts and fees go on that rest since a finding is contained; what did rest.

        ``by`` is who says so. It is written to the audit. No rule acts again for
        ``contain_cooldown``. Raises ``InvalidArgument``.
        """
        checks.text(reason, "reason", longest=1_000)
        checks.name(by, "by")
        await self.app.open()
        store, released = self.app.store(), list[str]()
        for lever in await levers.resting(store, await store_time(self)):
            detail = f"{lever} go on: {reason}"
            made = NewRecord(
                phase=Phase.RELEASED, subject=lever, detail=detail, episode=self.new_id(), by=by
            )
            await record(store, made, self.new_id())
            await levers.released(store, lever)
            released.append(lever.value)
        await store.end_finding(CONTAINED)
        return tuple(sorted(released))

    async def audit(self, *, before: int = 0, limit: int = 100) -> list[AuditRecord]:
        """The records of what was found and done, the newest first; ``before`` is the number of the
        last one of the page before.
        """
        checks.integer(limit, "limit", least=1, most=1_000)
        await self.app.open()
        async with self.app.store().ledger_snapshot() as reads:
            return await trail(reads, before=before, limit=limit)

    def worker(self) -> EconomyWorker:
        """The worker that runs the sweeps again and again, in a host without ``offpath worker``."""
        return EconomyWorker(self.run_sweeps, self.app.clock, self.report, self.paused)

    def register_sweeps(self) -> None:
        """Have the app's workers drive the sweeps: each by a loop, on one worker of the fleet.

        With them come one that acts on findings, and one that removes what is too old to count.
        Raises ``InvalidArgument`` when the app has an economy already.
        """
        telemetry.known(self.app.metrics)
        for sweep in self.sweeps:
            self._register(sweep.terms, sweep)
        self._register(DrivingTerms(name="containment"), Containment(self))
        self._register(DrivingTerms(name="prune", limit=PRUNE_BATCH), PruneLedger(self))

    def _register(self, terms: DrivingTerms, target: object) -> None:
        settings = self.settings
        every = settings.worker_interval if terms.every is None else terms.every
        info = SweepInfo(
            name=f"{PREFIX}{terms.name}",
            every=every,
            limit=settings.worker_batch if terms.limit is None else terms.limit,
            claim_timeout=terms.longest,
            window=window_of(every) + terms.longest,
            by_rows=False,
        )
        self.app.sweeps.add(Sweep(info=info, target=target, driven=terms.driven))
        core_of(self.app).sweep_added(info.name)


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
        sweep = economy.sweeps[name]
        at = await store_time(economy) if now is None else now
        summary = (await sweep.move(sweep.new_pass(at, limit, windows))).summary
        assert isinstance(summary, kind)  # noqa: S101 - each sweep has its own
        return summary

    swept.__annotations__["return"] = kind.__name__  # what a reader sees; K is nobody's type
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
