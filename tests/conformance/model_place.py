"""The place of the second store in the model-based test."""

from __future__ import annotations

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend


class Place:
    """The place of the second store's jobs: one store for all examples, since opening one costs.

    Each example removes what it made, by calls of the store. Only after one that failed, and may
    have left anything behind, is the place swept.
    """

    def __init__(self, backend: Backend, clock: ManualClock) -> None:
        self._backend = backend
        self._clock = clock
        self._store: Store | None = None
        self.clean = True

    async def empty_store(self) -> Store:
        """The store, without a job in it."""
        if self._store is None or not self.clean:
            await self.close()
            self._store = self._backend.store(self._clock)
            await self._store.open()
            if self._store.capabilities.shared and not self.clean:
                self._backend.sweep()
        self.clean = False
        return self._store

    async def close(self) -> None:
        """Close the store, if one was opened."""
        if self._store is not None:
            await self._store.close()
