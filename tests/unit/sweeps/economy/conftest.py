"""The rig, closed in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.sweeps.economy.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    await made.app.close()
