from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.edge_cases.bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.app.close()
