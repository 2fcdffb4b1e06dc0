"""Threads that only read: what nobody waits for any more is stopped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from offpath.store.sqlite import SqliteStore

_ENDLESS = """
with recursive n(i) as (select 1 + coalesce(began(), 0) union all select i + 1 from n)
select count(*) from n where i < 0
"""


async def test_a_read_that_nobody_waits_for_is_stopped(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    began, ended = threading.Event(), threading.Event()

    def read(session: Any) -> Any:
        session._connection.create_function("began", 0, began.set)
        try:
            return session.once(_ENDLESS)
        finally:
            ended.set()

    try:
        assert store._readers is not None
        task = asyncio.create_task(store._readers.do(read))
        assert await asyncio.to_thread(began.wait, 50)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 50)
        assert await store.queues() == []
    finally:
        await store.close()
