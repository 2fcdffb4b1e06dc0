from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.jobs.worker.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    await made.memory.open()
    yield made
    await made.close()
