"""Dead letters of a router, delivered again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from offpath.events.delivery_claim import ClaimLost, DeliveryClaim
from offpath.events.router_step import REFUSED, Courier, RouterStep
from offpath.model.effects import NOTHING
from offpath.model.route import AttemptStatus, Letter, RouterRecord
from offpath.model.route_decision import decide
from offpath.model.tally import Tally

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

_RESOLVES: Final = {AttemptStatus.SENT, AttemptStatus.DRY_RUN}


class LetterRedrive:
    """Takes letters one by one, each in its own error boundary and transaction."""

    def __init__(
        self, store: Store, courier: Courier, new_id: Callable[[], str], clock: Clock
    ) -> None:
        self._store = store
        self._courier = courier
        self._new_id = new_id
        self._clock = clock

    async def __call__(self, record: RouterRecord, ids: Sequence[str], *, limit: int) -> Tally:
        """Deliver these letters again, or all unresolved; see :meth:`Router.redrive`."""
        letters = await self._store.letters(record.name, ids=ids, limit=limit)
        buckets: defaultdict[str, list[str]] = defaultdict(list)
        for letter in letters:
            buckets[await self._redriven(record, letter)].append(letter.id)
        return Tally(buckets={name: tuple(found) for name, found in buckets.items()})

    async def _redriven(self, record: RouterRecord, letter: Letter) -> str:
        """Deliver one letter again; returns the bucket that it belongs in."""
        claim = self._claim(letter)
        if not await claim.taken():
            return "skipped"
        try:
            step = await claim.during(self._delivered(record, letter))
        except ClaimLost:
            return "skipped"
        try:
            recorded = await self._record(letter, step)
        except REFUSED as error:
            step = step.failed(error)
            recorded = await self._record(letter, step)
        return step.attempt.status.value if recorded else "skipped"

    def _claim(self, letter: Letter) -> DeliveryClaim:
        # Processes of the release before know the claim by this name.
        name = f"offpath.replay:{letter.id}:{letter.number + 1}"
        patience = self._courier.patience
        return DeliveryClaim(
            self._store, name, self._new_id(), patience=patience, clock=self._clock
        )

    async def _delivered(self, record: RouterRecord, letter: Letter) -> RouterStep:
        number = letter.number + 1
        attempt = structs.replace(decide(letter.event, record.routes, gates=record), number=number)
        step = self._courier.stored(RouterStep(letter.event, attempt))
        if self._courier.goes_outside(step):
            step = await self._courier.outside(step)
        return step

    async def _record(self, letter: Letter, step: RouterStep) -> bool:
        status = step.attempt.status
        return await self._store.record_replay(
            letter,
            step.attempt,
            resolution=status.value if status in _RESOLVES else None,
            effects=step.effects if step.error is None else NOTHING,
        )
