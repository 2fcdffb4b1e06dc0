"""A marketplace for each test, opened and closed around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.unit.economy.marketplace import Marketplace

Opens = Callable[..., Awaitable[Marketplace]]


@pytest.fixture
async def open_market() -> AsyncIterator[Opens]:
    """Opens a marketplace with settings and ports of the test's own."""
    async with AsyncExitStack() as stack:

        async def opened(**given: Any) -> Marketplace:
            made = Marketplace(**given)
            await stack.enter_async_context(made.app)
            return made

        yield opened


@pytest.fixture
async def market(open_market: Opens) -> Marketplace:
    """A marketplace with the settings of the edge cases."""
    return await open_market()
