"""Ends of jobs of which somebody else has a row locked: only these wait.

A settlement writes many jobs in one statement, which would wait for the one row that a session in
the middle of a transaction has. So it gets a moment; when it takes longer, the next ones are done
with care: what is free is written, what is locked is answered ``BUSY``, until nothing is locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from offpath.errors import StoreBusy, StoreUnavailable
from offpath.model.settlement import Settled, Settlement, SettleStatus
from offpath.store.postgres.settle import lock_signals, settle_steps
from offpath.store.postgres.steps import ids_json
from offpath.store.programs.dialect import Announced, Send, Steps
from offpath.store.sql import Catalogue

MOMENT: Final = 1.0
"""Seconds for a settlement before locks are looked for, and between two looks."""

Settle = Callable[[Sequence[Settlement]], Awaitable[list[Settled]]]


class Care:
    """The care with which settlements are done at the moment."""

    def __init__(self) -> None:
        self._needed = False

    async def settle(
        self,
        settlements: Sequence[Settlement],
        at_once: Settle,
        free: Settle,
        *,
        locked: Callable[[], Awaitable[bool]],
    ) -> list[Settled]:
        """Settle ``at_once``, or what is ``free`` while something is locked.

        ``locked`` tells whether somebody waits for the row of a job. Raises ``StoreUnavailable``
        when the first way met that: it is unknown what was done.
        """
        if self._needed:
            answers = await self._settle_free(settlements, free)
            self._needed = any(one.status is SettleStatus.BUSY for one in answers)
            return answers
        # Looking for locks before each batch would cost every one a round trip, and a lock that
        # lasts is rare. So a batch is looked after only when it takes long.
        settling = asyncio.ensure_future(at_once(settlements))
        try:
            while not (await asyncio.wait((settling,), timeout=MOMENT))[0]:
                if await locked():
                    self._needed = True
                    break
        finally:
            if not settling.done():
                settling.cancel()
                await asyncio.wait((settling,))
        if settling.cancelled():
            raise StoreUnavailable(
                f"{len(settlements)} ends wait for a row that somebody has locked: it is unknown "
                "whether they were written"
            )
        return settling.result()

    async def _settle_free(self, settlements: Sequence[Settlement], free: Settle) -> list[Settled]:
        """The answers to settlements whose other rows may be locked: those rows are found by
        halving.
        """
        try:
            return await free(settlements)
        except StoreBusy as error:
            if len(settlements) == 1:
                return [busy(settlements[0], error)]
        middle = len(settlements) // 2
        parts = (settlements[:middle], settlements[middle:])
        return [one for part in parts for one in await self._settle_free(part, free)]


def settle_free_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled]]:
    """Settle those whose rows nobody has locked. The locks are taken in the written order."""
    ids = ids_json(one.job.id for one in settlements)
    # Turns of signals cannot be skipped as rows can, so here a wait for one is cut short.
    first = (sql["briefly"](), *lock_signals(settlements, sql))
    # Two looks, for a job that is not in the second may be locked, or may be gone: a gone one must
    # be answered as lost, and not be tried for ever.
    *_, there, unlocked = yield Send(
        (*first, sql["jobs_there"](ids=ids), sql["free_jobs"](ids=ids))
    )
    locked = {job for (job,) in there} - {job for (job,) in unlocked}
    left = [one for one in settlements if one.job.id not in locked]
    answers = (yield from settle_steps(left, now, announced, sql=sql)) if left else []
    rest = iter(answers)
    return [busy(one) if one.job.id in locked else next(rest) for one in settlements]


def busy(one: Settlement, error: Exception | None = None) -> Settled:
    """The answer to a settlement that has to wait for somebody else's lock."""
    return Settled(id=one.job.id, status=SettleStatus.BUSY, error=error)
