"""Workers of two releases on one store: neither keeps, burns or hides what it does not know."""

from __future__ import annotations

import pytest

import offpath
from offpath import JobState
from offpath.operating.checkup import examine
from offpath.store.protocol import Level
from tests.integration import service
from tests.integration.fleet import Fleet


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_an_older_worker_leaves_what_it_does_not_know_and_it_is_shown(
    app: offpath.App, fleet: Fleet, url: str
) -> None:
    await fleet.up(app, target="tests.integration.older_service:app")
    unknown = await app.enqueue([service.work.job(0.0) for _ in range(20)])
    known = await app.enqueue(service.child.job())
    await known.result(timeout=20)

    assert {(await one.status()).deliveries for one in unknown} == {0}
    (due,) = await app.backlog()
    assert (due.task, due.ready) == ("work", 20)
    (takers,) = [one for one in await examine(offpath.App(url)) if one.name == "takers"]
    assert takers.level is Level.PROBLEM
    assert "20 of work" in takers.message

    await fleet.up(app)
    for one in unknown:
        await one.result(timeout=20)
    assert {(await one.status()).deliveries for one in unknown} == {1}
    assert not await app.jobs.count(state=JobState.DEAD)
