"""The findings of a checkup that no other test makes."""

from __future__ import annotations

import pytest

import offpath
from offpath.operating import checkup
from offpath.store.protocol import Finding, Level


async def lanes(app: offpath.App) -> Finding:
    return next(one for one in await checkup.look(app) if one.name == "lanes")


async def test_a_queue_for_each_customer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "LANES", 20)
    async with offpath.App("memory://", auto_start=False) as app:

        @app.task
        async def mail(n: int) -> None:
            pass

        @app.task
        async def other() -> None:
            pass

        await other.enqueue()
        await app.enqueue([mail.options(queue=f"customer-{n}").job(n) for n in range(18)])
        assert (await lanes(app)).level is Level.FINE
        await mail.options(queue="customer-19").enqueue(19)
        found = await lanes(app)
        assert found.level is Level.WARNING
        assert "20 pairs of queue and task have due work, 19 of them mail" in found.message
        assert "fair_key" in found.message
