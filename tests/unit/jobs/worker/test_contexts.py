"""Context variables: a job sees neither the job before it nor where its worker was started."""

from __future__ import annotations

import decimal
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from offpath import App

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture
async def app() -> AsyncIterator[App]:
    made = App(auto_start=False)
    yield made
    await made.close()


def _look(seen: list[Any], name: str) -> None:
    seen.append((tenant.get(), decimal.getcontext().prec))
    tenant.set(name)
    decimal.getcontext().prec = 3


async def test_a_job_sees_no_context_but_its_own(app: App) -> None:
    seen: list[Any] = []

    @app.task
    async def loops(name: str) -> None:
        _look(seen, name)

    @app.task(retry=1)
    def threads(name: str) -> None:
        _look(seen, name)
        raise RuntimeError(name)

    @app.batch_task(size=2, max_wait=0.0)
    async def together(names: list[str]) -> list[str]:
        _look(seen, names[0])
        return names

    precision = decimal.getcontext().prec
    tenant.set("the request in which the worker was started")
    for _ in range(2):
        await app.enqueue(loops.job("one"))
        await app.enqueue(threads.job("two"))
        await app.enqueue(together.job("three"))
        await app.worker().run_until_idle()
    assert seen == [("nobody", precision)] * 6
    assert tenant.get() == "the request in which the worker was started"
