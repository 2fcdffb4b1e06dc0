"""A SQLite store on a fresh file, and the ways to disturb it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.sqlite import SqliteStore
from tests.conformance.builders import START


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, clock=clock, busy_timeout=0.2)
    await opened.open()
    yield opened
    await opened.close()
