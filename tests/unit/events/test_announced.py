"""Announced jobs: their changes of state are events of the outbox, in the same transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import offpath
from offpath.events import Event
from offpath.model.option_checks import checked
from offpath.model.options import Options, resolve
from offpath.runtime.clock import ManualClock


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    async with offpath.App(clock=ManualClock(), auto_start=False) as app:
        yield app


def told(app: offpath.App) -> list[Any]:
    seen: list[Any] = []

    @app.outbox("offpath.jobs", ordered=True)
    async def dispatch(event: Event) -> None:
        seen.append((event.topic, event.key, event.payload))

    return seen


async def test_the_states_that_a_task_names_are_announced(app: offpath.App) -> None:
    seen = told(app)

    @app.task(announce=("succeeded", "dead"), announce_details=True)
    async def pay(order: int) -> int:
        if order < 0:
            msg = "no such order"
            raise offpath.Abort(msg)
        return order

    @app.task
    async def quiet() -> None: ...

    good, bad = await pay.enqueue(7), await pay.enqueue(-1)
    await quiet.enqueue()
    await app.worker().run_until_idle()
    assert [(topic, key) for topic, key, _ in seen] == [
        ("job.succeeded", good.id),
        ("job.dead", bad.id),
    ]
    first, second = (payload for _, _, payload in seen)
    assert (first["task"], first["previous"], first["state"]) == ("pay", "running", "succeeded")
    assert (first["result"], second["reason"]) == ("7", "aborted")


async def test_a_job_may_announce_what_its_task_does_not(app: offpath.App) -> None:
    seen = told(app)

    @app.task(announce=("succeeded",))
    async def pay() -> None: ...

    await pay.options(announce=()).enqueue()
    await pay.options(announce=["queued", "running"]).enqueue()
    await app.worker().run_until_idle()
    assert [topic for topic, _, _ in seen] == ["job.queued", "job.running"]
    assert "result" not in seen[0][2]


@pytest.mark.parametrize("states", ["dead", ["deaf"], ["blocked"]])
def test_states_that_cannot_be_announced_are_refused(states: Any) -> None:
    with pytest.raises(offpath.InvalidArgument, match="announce"):
        checked(Options(announce=states))


def test_details_alone_announce_nothing() -> None:
    assert resolve((checked(Options(announce_details=True)),)).announce == 0
