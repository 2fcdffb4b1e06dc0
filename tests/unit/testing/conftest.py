"""An app as a user's module has it, and the memory store in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from offpath import App
from offpath.testing import ManualClock, MemorySwap, swap_to_memory


@pytest.fixture
def app() -> App:
    """An app whose own store no test may touch: it cannot even be opened."""
    return App("postgresql://nobody@127.0.0.1:1/none")


@pytest.fixture
async def memory(app: App) -> AsyncIterator[MemorySwap[ManualClock]]:
    async with swap_to_memory(app) as swapped:
        yield swapped
