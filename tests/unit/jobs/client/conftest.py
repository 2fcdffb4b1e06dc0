"""Apps on memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from offpath import App
from offpath.runtime.clock import ManualClock


@pytest.fixture
async def app() -> AsyncIterator[App]:
    """An app with its own worker."""
    app = App()
    yield app
    await app.close()


@pytest.fixture
async def still() -> AsyncIterator[App]:
    """An app in which nothing runs by itself."""
    app = App(auto_start=False, clock=ManualClock())
    yield app
    await app.close()
