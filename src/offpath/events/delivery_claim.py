"""The claim of one pass on one event that it delivers outside of a router's run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final, TypeVar

from offpath.errors import LeaseLost
from offpath.events.router_run import renewed

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

T = TypeVar("T")

MARGIN: Final = 10.0
"""Seconds that a claim outlasts the time limit of the deliverer.

Nobody else delivers the event meanwhile. A deliverer that is killed holds it up for as long.
"""
_RENEWALS: Final = 3
"""Renewals within the time of a claim."""


class ClaimLost(LeaseLost):
    """Another pass took the event meanwhile; nothing of this delivery was written."""

    code = "claim_lost"


class DeliveryClaim:
    """A name that is held for as long as its event is being delivered.

    A deliverer may take longer than its time limit: it ends when it heeds the cancellation. So the
    claim is renewed until it has ended, and ends by itself where nobody renews it any more.
    """

    def __init__(
        self, store: Store, name: str, holder: str, *, patience: float, clock: Clock
    ) -> None:
        self._store = store
        self._name = name
        self._holder = holder
        self._term = patience + MARGIN
        self._clock = clock

    async def taken(self) -> bool:
        """Take it. Returns False while another pass has it."""
        return await self._store.claim(self._name, self._holder, ttl=self._term)

    async def during(self, delivery: Coroutine[None, None, T]) -> T:
        """Deliver, and keep the claim meanwhile. Raises ``ClaimLost``, the delivery cancelled."""
        return await renewed(delivery, self._renew, clock=self._clock, every=self._term / _RENEWALS)

    async def _renew(self) -> None:
        if not await self._store.claim(self._name, self._holder, ttl=self._term, renew=True):
            raise ClaimLost(f"the claim {self._name} ended before its delivery did")
