"""Verbs that had another name in the release before: each works, warns, and is not shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import offpath
from offpath import Abort, App
from offpath.jobs.client.jobs_view import JobsView
from offpath.model.job import JobState


@pytest.fixture
def app() -> App:
    return App("memory://", auto_start=False)


async def _dead_and_waiting(app: App) -> tuple[str, str]:
    @app.task(retry=1)
    async def dies() -> None:
        raise Abort

    @app.task
    async def waits() -> None: ...

    dead = await dies.enqueue()
    waiting = await waits.options(delay=3600).enqueue()
    await app.worker().run_until_idle()
    return dead.id, waiting.id


async def _act(act: Callable[..., Awaitable[list[Any]]], *ids: str) -> list[str]:
    return [one.id for one in await act(*ids)]


async def test_redrive_takes_the_dead_and_run_now_takes_the_waiting(app: App) -> None:
    async with app:
        dead, waiting = await _dead_and_waiting(app)
        assert await _act(app.jobs.run_now, dead, waiting) == [waiting]
        assert await _act(app.jobs.redrive, dead, waiting) == [dead]
        found = {one.id: one for one in (await app.jobs.find()).items}
        assert {one.state for one in found.values()} == {JobState.QUEUED}
        assert found[waiting].run_at <= await app.store().ping()


async def test_retry_still_does_both_and_warns_at_its_caller(app: App) -> None:
    async with app:
        dead, waiting = await _dead_and_waiting(app)
        with pytest.warns(DeprecationWarning, match=r"redrive .* or run_now") as caught:
            retry: Any = app.jobs.retry  # type: ignore[attr-defined]
        assert caught[0].filename == __file__
        assert sorted(await _act(retry, dead, waiting)) == sorted([dead, waiting])


def test_the_blocking_twin_has_the_former_name_too() -> None:
    app = App("memory://", auto_start=False)
    with app.blocking as client:
        with pytest.warns(DeprecationWarning, match="redrive"):
            retry: Any = client.jobs.retry  # type: ignore[attr-defined]
        assert retry(state="dead") == []


async def test_messages_and_letters_know_their_former_verbs(app: App) -> None:
    router = app.router("shop", domain="shop", start="beginning")
    with pytest.warns(DeprecationWarning, match=r"app\.messages\.revive"):
        revive: Any = app.messages.revive  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match=r"router\.replay"):
        replay: Any = router.replay  # type: ignore[attr-defined]
    async with app:
        assert await revive(everything=True) == []
        assert (await replay()).total == 0


@pytest.mark.parametrize("name", ["retry", "reviev"])
def test_a_former_name_is_not_shown_and_a_wrong_one_is_an_error(app: App, name: str) -> None:
    assert "retry" not in dir(app.jobs)
    assert "revive" not in dir(app.messages)
    assert not hasattr(JobsView, "retry")
    with pytest.raises(AttributeError, match="'MessagesView' object has no attribute"):
        getattr(app.messages, name)
    assert offpath.retry is not None
