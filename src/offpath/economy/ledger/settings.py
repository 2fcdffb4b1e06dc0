"""The settings of an economy. Durations are seconds, amounts minor units, times aware UTC.

Made by :func:`offpath.economy.ledger.configuration.load_economy_settings` or, in tests, by hand.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

_YEARS = 10 * 366 * 86_400.0

Bps = Annotated[int, Meta(ge=0, le=10_000)]
Minor = Annotated[int, Meta(ge=0, le=10**15)]
SomeMinor = Annotated[int, Meta(ge=1, le=10**15)]
Attempts = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(ge=0, le=_YEARS)]
SomeSeconds = Annotated[float, Meta(gt=0, le=_YEARS)]


Containable = Literal["economy.unexplained", "economy.breach", "economy.drift", "economy.payouts"]


class EconomySettings(Struct, frozen=True, kw_only=True):
    """The rules of an economy that are not code."""

    platform_fee_bps: Bps = 1530
    """The platform's part of what is paid with credits that were bought."""
    payout_fee_bps: Bps = 150
    """The fee of the rail for a payout: recorded, not posted."""
    velocity_limit_minor: SomeMinor = 100_000
    """The most credits that one user may move each way within the window, tries included."""
    velocity_inflow_limit_minor: SomeMinor | None = None
    """The same for top-ups and promos; None: ``velocity_limit_minor``."""
    velocity_outflow_limit_minor: SomeMinor | None = None
    """The same for spends, subscriptions and payouts; None: ``velocity_limit_minor``."""
    velocity_window: SomeSeconds = 3_600.0
    subscription_price_min_minor: SomeMinor = 10_000
    subscription_price_max_minor: SomeMinor = 1_000_000
    subscription_grace: Seconds = 60.0
    """The time after a paid period for which a thing is owned still, while its renewal is made, and
    for which a renewal that is not covered waits."""
    top_up_bundles_minor: tuple[SomeMinor, ...] = ()
    """The amounts that can be topped up; none given: any."""
    maturity_card: Seconds = 0.0
    """The time that credits bought by card wait before they can be spent."""
    maturity_crypto: Seconds | None = None
    """None: as by card. So are the next ones."""
    maturity_steam: Seconds | None = None
    maturity_meta: Seconds | None = None
    maturity_default: Seconds | None = None
    """For every other source, for what sellers earn (their refund window) and for revenue."""
    sla_pending: SomeSeconds = 30.0
    """The time when a requested payout is first looked at."""
    sla_submitted: SomeSeconds = 120.0
    """The time when a payout that a provider took is looked at again."""
    sla_default: SomeSeconds = 60.0
    payout_min_earned_minor: Minor = 2_000_000
    """The least that can be paid out, in credits."""
    payout_min_interval: Seconds = 86_400.0
    """The time that a seller waits from one payout to the next; one that failed does not count."""
    max_payout_age: SomeSeconds = 259_200.0
    """The time that a provider may say nothing of a payout before it is given up."""
    max_payout_attempts: Attempts = 5
    max_subscription_attempts: Attempts = 10
    max_promo_attempts: Attempts = 10
    promo_grace: SomeSeconds = 2_592_000.0
    """The time that promo credits last that a refund gives back after their grant has expired."""
    pause_start: datetime | None = None
    """From here on, until ``pause_end``, operations of users are declined."""
    pause_end: datetime | None = None
    worker_interval: SomeSeconds = 60.0
    worker_batch: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The number of rows of each kind that one run takes."""
    max_batch: Annotated[int, Meta(ge=1, le=1_000)] = 128
    """The number of concurrent operations that share one transaction at most."""
    reconcile_every: SomeSeconds | None = None
    """The length of the windows that workers compare with the feed, one after the other, counted
    from 1970 in UTC; None: windows are given by hand."""
    reconcile_lag: Seconds = 3_600.0
    """The time after a window's end at which the processor has settled it."""
    prove_cycle: SomeSeconds | None = None
    """The time in which workers prove all old postings once more, slice by slice; None: they do
    not. It needs a signer, as ``checkpoint_verify`` does."""
    contain: tuple[Containable, ...] = ("economy.unexplained",)
    """The findings that have payouts and fees rest; of the others people are told."""
    contain_cooldown: Seconds = 3_600.0
    """The time after a release, or after an act on the inbox, in which no rule acts again."""
    contain_most: Annotated[int, Meta(ge=1, le=100)] = 3
    """The number of times that a rule acts on one finding before only people can."""
    keep_keys: SomeSeconds | None = None
    """The time that idempotency keys are kept; None: for ever. A key that is gone can be used
    again.
    """
    origins: tuple[tuple[str, str], ...] = ()
    """Field and origin of what was not left at its default."""

    def faults(self) -> list[str]:
        """The settings that do not fit together."""
        found = []
        if self.subscription_price_min_minor > self.subscription_price_max_minor:
            found.append("subscription_price_min_minor is above subscription_price_max_minor")
        if (self.pause_start is None) is not (self.pause_end is None):
            found.append("pause_start and pause_end: give both or neither")
        times = [one for one in (self.pause_start, self.pause_end) if one is not None]
        if any(one.utcoffset() is None for one in times):
            found.append("pause_start and pause_end must have a time zone")
        elif len(times) == 2 and times[0] >= times[1]:  # noqa: PLR2004 - both are there
            found.append("pause_start must be before pause_end")
        return found


SETTINGS = tuple(name for name in EconomySettings.__struct_fields__ if name != "origins")
"""The names of the settings."""
