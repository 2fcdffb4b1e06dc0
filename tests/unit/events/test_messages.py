"""Looking at messages and putting them right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

import offpath
from offpath.errors import MessageNotFound
from offpath.events import Event, Undeliverable, messages
from offpath.runtime.clock import ManualClock


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    async with offpath.App(clock=ManualClock(), auto_start=False) as app:

        @app.outbox("broken")
        async def dispatch(event: Event) -> None:
            raise Undeliverable

        yield app


async def dead(app: offpath.App, count: int) -> list[str]:
    ids = [await app.publish("t", number, stream="broken") for number in range(count)]
    await app.worker().run_until_idle()
    return ids


async def test_pages_are_followed_and_filters_narrow(app: offpath.App) -> None:
    ids = await dead(app, 5)
    waiting = await app.publish("other", key="k", stream="nobody")
    page = await app.messages.find(limit=4, newest=False)
    rest = await app.messages.find(limit=4, newest=False, after=page.next)
    assert [one.id for one in (*page.items, *rest.items)] == [*ids, waiting]
    assert rest.next is None
    for where in (
        {"states": ["pending"]},
        {"topics": ["other"]},
        {"keys": ["k"]},
        {"streams": ["nobody"], "box": "out"},
    ):
        found = await app.messages.find(**where)
        assert [one.id for one in found.items] == [waiting]
    with pytest.raises(MessageNotFound):
        await app.messages.get("01890a5d-ac96-774b-bcce-b302099a8057")


async def test_more_than_a_page_is_revived_oldest_first(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PAGE", 2)
    ids = await dead(app, 5)
    assert await app.messages.redrive(streams=["broken"], limit=3) == ids[:3]
    assert await app.messages.redrive(everything=True) == ids[3:]
    record = await app.messages.get(ids[0])
    assert (record.state, record.attempt, record.deliveries) == ("pending", 1, 0)


async def test_dead_letters_are_discarded_and_others_are_not(app: offpath.App) -> None:
    ids = await dead(app, 2)
    waiting = await app.publish("t", stream="nobody")
    assert await app.messages.discard(ids[0], waiting) == [ids[0]]
    assert await app.messages.discard(reasons=["undeliverable"]) == [ids[1]]
    assert [one.id for one in (await app.messages.find()).items] == [waiting]


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"streams": "broken"},
        {"state": ["dead"]},
        {"states": ["deaf"]},
        {"box": "sideways"},
        {"reasons": ["tired"]},
        {"created_after": datetime(2026, 1, 1)},  # noqa: DTZ001 - refused for that
        {"streams": ["broken"], "limit": 0},
    ],
)
async def test_what_is_not_understood_changes_nothing(
    app: offpath.App, where: dict[str, Any]
) -> None:
    (letter,) = await dead(app, 1)
    with pytest.raises(offpath.InvalidArgument):
        await app.messages.redrive(**where)
    assert (await app.messages.get(letter)).state == "dead"


async def test_ids_and_a_filter_exclude_each_other(app: offpath.App) -> None:
    (letter,) = await dead(app, 1)
    with pytest.raises(offpath.InvalidArgument, match="not both"):
        await app.messages.discard(letter, streams=["broken"])
