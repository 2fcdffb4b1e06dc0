"""The instrumented store's answers to health."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from offpath.store.watching import Watching

if TYPE_CHECKING:
    from offpath.model.deaths import Deaths
    from offpath.model.limit import LimitHolder
    from offpath.model.route import RouterLag


class InstrumentedHealth(Watching):
    """The part of the instrumented store that health asks."""

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """As the store does."""
        return await self._timed("deaths", self._inner.deaths(since=since, limit=limit))

    async def limit_holders(self, keys: Sequence[str]) -> Sequence[LimitHolder]:
        """As the store does."""
        return await self._timed("limit_holders", self._inner.limit_holders(keys))

    async def router_lags(self) -> Sequence[RouterLag]:
        """As the store does."""
        return await self._timed("router_lags", self._inner.router_lags())
