"""Everything at once on a real server: nothing deadlocks, and the books are right afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.integration.scale import scaled
from tests.integration.storm import Storm

SECONDS = scaled(4, 60)


@pytest.fixture
async def storms(pg_url: str) -> AsyncIterator[Callable[..., Storm]]:
    """Makes a storm; its connections are closed after the test."""
    made: list[Storm] = []

    def make(*, removing: bool) -> Storm:
        made.append(Storm(pg_url, SECONDS, removing=removing))
        return made[-1]

    yield make
    for storm in made:
        await storm.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("removing", [False, True], ids=["kept", "removed"])
async def test_after_a_storm_everything_ends_and_all_that_is_counted_is_there(
    storms: Callable[..., Storm], *, removing: bool
) -> None:
    """Promises 2 and 4, with callers and server processes that are killed in the middle."""
    storm = storms(removing=removing)
    await storm.run()
    await storm.calm()
    assert await storm.audit() == {}
    assert {"produce", "sweep", "admit", "meddle", "send", "kill"} <= storm.calls.keys()
    await storm.close()
    assert await storm.deadlocks() == 0
