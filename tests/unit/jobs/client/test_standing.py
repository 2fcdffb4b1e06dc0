"""A wait that was in vain says how its job stands."""

from __future__ import annotations

import asyncio

import pytest

from offpath import App, Context, Limit, WaitTimeout, gate
from offpath.jobs.client.core import core_of
from offpath.model.job import JobState
from offpath.retries import RetryPolicy


@pytest.fixture
def app() -> App:
    return App(auto_start=False)


async def vain(app: App, job_id: str) -> WaitTimeout:
    with pytest.raises(WaitTimeout) as refusal:
        await core_of(app).client.wait(job_id, 0)
    return refusal.value


async def test_a_job_that_nobody_takes(app: App) -> None:
    @app.task
    async def lonely() -> None: ...

    async with app:
        handle = await lonely.enqueue()
        with pytest.raises(WaitTimeout, match=r"it is queued; it is due at .*, and no worker"):
            await handle.result(timeout=0.01)


async def test_a_job_that_failed_and_waits_for_its_next_attempt(app: App) -> None:
    @app.task(retry=RetryPolicy(attempts=3, base=60.0))
    async def fail() -> None:
        raise ValueError("card 4111")

    async with app:
        handle = await fail.enqueue()
        async with app.worker() as worker:
            await worker.run_until_idle()
            with pytest.raises(WaitTimeout) as refusal:
                await handle.result(timeout=0)
    text = str(refusal.value)
    assert "attempt 2 (the last one failed: ValueError)" in text
    assert "4111" not in text
    assert refusal.value.record.state is JobState.QUEUED


async def test_jobs_that_are_blocked_say_by_what(app: App) -> None:
    @app.task(limit=Limit(key="api", max_running=1))
    async def limited() -> None: ...

    @app.task
    async def waits(ctx: Context) -> None:
        await ctx.wait_for("paid")

    @app.task
    async def after() -> None: ...

    async with app:
        held = await limited.enqueue()
        waiting = await waits.enqueue()
        behind = after.job()
        await app.enqueue(gate([waiting], [behind]))
        assert "room under the limit api" in str(await vain(app, held.id))
        assert "it waits behind the gate" in str(await vain(app, behind.id))
        async with app.worker() as worker:
            await worker.run_until_idle()
        assert "it waits for the signal paid" in str(await vain(app, waiting.id))


async def test_a_group_says_how_many_are_open(app: App) -> None:
    @app.task
    async def lonely() -> None: ...

    async with app:
        handle = await lonely.enqueue()
        with pytest.raises(WaitTimeout, match="1 of its jobs are open, 0 failed"):
            await asyncio.wait_for(handle.group(timeout=0), 5)


async def test_a_queued_job_says_why_nobody_takes_it(app: App) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with app:
        handle = await send.enqueue()
        unknown = await app.by_name("sned", registered=False).enqueue()
        assert str(await vain(app, handle.id)).endswith("; no live worker serves its queue mail")
        async with app.worker(queues=["other", "default"]):
            assert "; no live worker serves its queue mail" in str(await vain(app, handle.id))
            said = str(await vain(app, unknown.id))
            assert said.endswith("; no live worker of its queue default knows its task sned")
        await app.queues.pause("mail")
        said = str(await vain(app, handle.id))
        assert said.endswith("; its queue mail is paused: offpath queues resume")
