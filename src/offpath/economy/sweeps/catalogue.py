"""The ten sweeps of an economy, in their order.

The order matters: what is verified is the seal of the run before, and what the first ones publish
the relay hands on in the same run.
"""

from __future__ import annotations

from typing import Final

from offpath.economy.ledger.ports import PortCalls
from offpath.economy.sweeps.checkpoint import checkpoint
from offpath.economy.sweeps.checkpoint_verify import checkpoint_verify
from offpath.economy.sweeps.context import SweptEconomy
from offpath.economy.sweeps.drain_inbox import drain_of
from offpath.economy.sweeps.fee_sweep import fee_sweep
from offpath.economy.sweeps.payouts import payouts
from offpath.economy.sweeps.promos import promos
from offpath.economy.sweeps.reconcile import reconcile
from offpath.economy.sweeps.relay import relay_of
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
from offpath.economy.sweeps.sweep import EconomySweep, EconomySweepTerms
from offpath.economy.sweeps.treasury import treasury

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
SOON = 5.0
"""Seconds from one look to the next at what users wait for."""
PROOF_TIMEOUT = 7_200.0
"""Seconds for a pass that proves chains: the first seal replays the whole ledger."""
_BY_HAND = (
    "windows are given by hand, economy.run_sweeps(SweepInput(windows=...)); or set reconcile_every"
)


def _by_hand(economy: SweptEconomy) -> str | None:
    return _BY_HAND if economy.settings.reconcile_every is None else None


def economy_sweeps(economy: SweptEconomy) -> tuple[EconomySweep, ...]:
    """The sweeps, in the order of :data:`SWEEP_NAMES`."""
    calls = PortCalls(lambda: economy.app.clock)  # asked each time: tests may swap the app's clock
    terms = EconomySweepTerms
    proof = PROOF_TIMEOUT
    several = (
        terms(name="payouts", work=payouts, every=SOON, needs="provider"),
        terms(name="subscriptions", work=subscriptions, every=SOON),
        terms(name="treasury", work=treasury),
        terms(name="fee_sweep", work=fee_sweep),
        terms(name="checkpoint_verify", work=checkpoint_verify, needs="signer", longest=proof),
        terms(name="checkpoint", work=checkpoint, needs="signer", longest=proof),
        terms(name="relay", work=relay_of(economy), driven=False),
        terms(name="drain_inbox", work=drain_of(economy), driven=False),
        terms(name="reconcile", work=reconcile, needs="feed", absent=_by_hand(economy)),
        terms(name="promos", work=promos, every=SOON),
    )
    return tuple(EconomySweep(one, economy, calls) for one in several)
