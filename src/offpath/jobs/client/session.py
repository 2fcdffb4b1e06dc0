"""The session of an open app: what its client, its views and its waits share."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from offpath.errors import OffpathError
from offpath.model.declaration import EVERY, HOOK, ORPHANS

if TYPE_CHECKING:
    from offpath.jobs.client.waiters import Waiters
    from offpath.store.protocol import Store


class StoreSession:
    """An open store and the waits on it. Lives in one event loop."""

    __slots__ = ("_claims_groups", "_looked_at", "keep_cancelled", "store", "waiters")

    def __init__(
        self,
        store: Store,
        waiters: Waiters,
        *,
        keep_cancelled: float | None,
        claims_groups: bool = False,
    ) -> None:
        self.store = store
        self.waiters = waiters
        self.keep_cancelled = keep_cancelled
        self._claims_groups = claims_groups
        # An app with the hook of its own need not look for others'.
        self._looked_at = math.inf if claims_groups else -math.inf

    async def tells_of_waits(self) -> bool:
        """True if the fleet is to know which process waits for a group: some worker has a hook for
        those that nobody waits for. That is looked for now and then.
        """
        now = self.waiters.clock.monotonic()
        if now - self._looked_at >= EVERY:
            self._looked_at = now
            with suppress(OffpathError):  # a wait must not fail since somebody may have a hook
                hooks = await self.store.declarations(HOOK)
                self._claims_groups = any(one.name == ORPHANS for one in hooks)
        return self._claims_groups
