"""The rig of the tests of schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.jobs.scheduling.scheduled import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    async with made.app:
        yield made
