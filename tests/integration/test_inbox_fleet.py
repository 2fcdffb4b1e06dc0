"""Killed drains apply nothing twice: what a handler writes commits with its message's mark."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.events import MessageState
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled

if TYPE_CHECKING:
    from tests.integration.fleet import Fleet

MESSAGES = scaled(300, 2_000)
KILLS = scaled(3, 12)
TARGET = "tests.integration.events_service:app"


async def _booked(app: offpath.App) -> Counter[str]:
    """The trace of the applied messages, by input."""
    found: Counter[str] = Counter()
    after: str | None = None
    while True:
        page = await app.jobs.find(task="booked", limit=500, after=after)
        found.update(one.input for one in page.items)
        if (after := page.next) is None:
            return found


@pytest.mark.timeout(300)
async def test_drains_killed_between_effects_and_mark_apply_nothing_twice(
    app: offpath.App, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases A5 too: each message comes several times, and not in its order."""
    if not CAMPAIGN:
        monkeypatch.setenv("OFFPATH_TEST_LEASE", "1")
    keys = [f"evt_{number}" for number in range(MESSAGES)]
    chance = random.Random(7)
    chance.shuffle(keys)
    for key in keys:
        assert (await app.accept("bank", key, {"key": key})).new
    for key in chance.sample(keys, 20):
        assert not (await app.accept("bank", key, {"key": key})).new
    start = partial(fleet.start, target=TARGET, poll_interval=0.2)
    drains = [start() for _ in range(2)]
    killed = await fleet.kill_at_work(drains, "applying", kills=KILLS, of=MESSAGES, start=start)

    async def applied() -> bool:
        pending = await app.messages.find(streams=["bank"], states=["pending"], limit=1)
        return not pending.items

    await eventually(applied, within=120, what="nothing waits")
    ends = await app.messages.find(streams=["bank"], limit=MESSAGES)
    assert {one.state for one in ends.items} == {MessageState.DONE}
    assert len(ends.items) == MESSAGES
    assert await _booked(app) == Counter(f'{{"key":"{key}"}}' for key in keys)
    runs = Counter(one.job for one in fleet.journal.all("applying"))
    assert set(runs) == set(keys)
    again = {key for key, count in runs.items() if count > 1}
    first = {one.job: one.pid for one in reversed(fleet.journal.all("applying"))}
    assert {first[key] for key in again} <= killed
