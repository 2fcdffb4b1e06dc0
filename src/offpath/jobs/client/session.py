"""The session of an open app: what its client, its views and its waits share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.jobs.client.waiters import Waiters
    from offpath.store.protocol import Store


class StoreSession:
    """An open store and the waits on it. Lives in one event loop."""

    __slots__ = ("claims_groups", "keep_cancelled", "store", "waiters")

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
        self.claims_groups = claims_groups
        """True if the fleet is to know which process waits for a group."""
