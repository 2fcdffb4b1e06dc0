"""G5: an app that is closed by a handler of its own ends, and the handler's end is recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from offpath import App, JobState


async def test_a_handler_may_close_its_app(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}", auto_start=False)

    @app.task
    async def last() -> str:
        await app.close()
        return "closed"

    await app.open()
    handle = await last.enqueue()
    await asyncio.wait_for(app.worker().run(), timeout=10)
    await app.close()
    async with app:
        record = await handle.status()
        assert all(one.gone_at for one in await app.workers())
    assert (record.state, record.deliveries) == (JobState.SUCCEEDED, 1)
