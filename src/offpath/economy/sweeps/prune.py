"""The sweep that removes tries that velocity no longer counts, and old keys."""

from __future__ import annotations

from datetime import datetime

from offpath.economy.ledger.rules import millis
from offpath.economy.sweeps.context import SweptEconomy, milliseconds
from offpath.model.tally import Tally
from offpath.sweeps.context import SweepContext

PRUNE_BATCH = 1_000


class PruneLedger:
    """Removes tries older than twice the window of velocity, and keys older than ``keep_keys``.

    Twice: a clock that is set back by less than a window still finds all that it is to count. No
    entry, link or row is ever removed.
    """

    def __init__(self, economy: SweptEconomy) -> None:
        self._economy = economy

    async def run(self, _ctx: SweepContext, now: datetime, limit: int) -> Tally:
        """Remove up to ``limit`` of each; counted, since they are gone."""
        rules, at = self._economy.rules, milliseconds(now)
        keep = self._economy.settings.keep_keys
        removed = await self._economy.app.store().prune_ledger(
            attempts_before=at - 2 * rules.window,
            keys_before=None if keep is None else at - millis(keep),
            limit=limit,
        )
        return Tally(counted={"removed": removed} if removed else {}, more=removed >= limit)
