"""Batch tasks over the memory store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.jobs.batches.bench import Bench
from tests.unit.jobs.worker.rig import breathe


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    async with made.app:
        yield made
        made.door.set()
        for worker in tuple(made.app._workers):
            stop = asyncio.ensure_future(worker.stop(drain=False))
            while not stop.done():
                made.clock.advance(0.5)
                await breathe()
