"""``app.queues`` and ``app.limits``, awaited and blocking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offpath import App, InvalidArgument, Limit
from offpath.errors import NotFound
from offpath.runtime.clock import ManualClock

AWARE = datetime(2026, 1, 1, 12, tzinfo=UTC)


def still() -> App:
    app = App(auto_start=False, clock=ManualClock())

    @app.task(limit=Limit(key="api", max_running=2))
    def call() -> None: ...

    return app


async def test_a_key_is_looked_at_paused_and_resumed() -> None:
    async with still() as app:
        for _ in range(3):
            await app.enqueue_by_name("call")
        await app.store().admit(limit=10)
        record = await app.limits.get("api")
        assert (record.admitted, record.held, record.max_running) == (2, 1, 2)
        assert await app.limits.pause("api") == 2
        assert [(one.paused, one.held) for one in await app.limits.list()] == [(True, 3)]
        assert await app.limits.resume("api")
        assert not await app.limits.resume("api")
        assert await app.limits.cool_down("api", timedelta(minutes=1)) == 0
        assert (await app.limits.get("api")).closed_until == app.clock.now() + timedelta(minutes=1)
        await app.limits.pause("api", until=AWARE)
        assert (await app.limits.get("api")).closed_until == AWARE
        assert await app.limits.list(limit=1, after="api") == []


async def test_an_unknown_key_is_not_found_but_can_be_paused() -> None:
    async with still() as app:
        with pytest.raises(NotFound, match="there is no limit 'api'"):
            await app.limits.get("api")
        await app.limits.pause("api")
        assert (await app.limits.get("api")).paused


async def test_a_queue_is_looked_at_paused_and_resumed() -> None:
    async with still() as app:
        await app.by_name("call").options(queue="mail").enqueue()
        await app.queues.pause("mail", until=AWARE)
        (queue,) = await app.queues.list()
        assert (queue.name, queue.blocked, queue.paused_until) == ("mail", 1, AWARE)
        await app.queues.pause("mail")
        (queue,) = await app.queues.list()
        assert (queue.paused, queue.paused_until) == (True, None)
        assert await app.queues.resume("mail")
        assert not await app.queues.resume("mail")


@pytest.mark.parametrize("until", [AWARE.replace(tzinfo=None), AWARE - timedelta(days=1)])
async def test_a_pause_must_end_in_the_future(until: datetime) -> None:
    async with still() as app:
        with pytest.raises(InvalidArgument, match="until"):
            await app.queues.pause("mail", until=until)
        with pytest.raises(InvalidArgument, match="until"):
            await app.limits.pause("api", until=until)
        assert (await app.queues.list(), await app.limits.list()) == ([], [])


def test_the_same_without_an_event_loop() -> None:
    with still().blocking as blocking:
        blocking.enqueue_by_name("call")
        assert blocking.limits.get("api").held == 1
        assert blocking.limits.pause("api", until=AWARE) == 0
        assert blocking.limits.cool_down("api", 5) == 0
        assert [one.closed_until for one in blocking.limits.list()] == [AWARE]
        assert blocking.limits.resume("api")
        blocking.queues.pause("default")
        assert [one.paused for one in blocking.queues.list()] == [True]
        assert blocking.queues.resume("default")


async def test_who_pauses_a_queue_that_nobody_knows_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with App(auto_start=False) as app:

        @app.task(queue="mail")
        async def send() -> None: ...

        await send.enqueue()
        with caplog.at_level("WARNING", logger="offpath.jobs"):
            await app.queues.pause("mail")
            assert caplog.messages == []
            await app.queues.pause("mial")
            (said,) = caplog.messages
            assert said == (
                "no job is in the queue 'mial', and no worker names it; known: mail: "
                "paused all the same"
            )
            await app.queues.pause("mial")  # it is known by its pause
        assert len(caplog.messages) == 1
        assert {one.name for one in await app.queues.list() if one.paused} == {"mail", "mial"}
