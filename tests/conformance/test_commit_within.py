"""Effects in the caller's own transaction: all of them or none, also when the caller goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from offpath.errors import StoreBusy
from offpath.model.effects import Effects
from offpath.store.protocol import Store
from offpath.store.sql import Query, Row
from offpath.store.within.connections import ASYNC, BLOCKING
from tests.conformance.backends import Backend
from tests.conformance.builders import add, new_job
from tests.conformance.log_builders import event
from tests.conformance.message_builders import message
from tests.conformance.workflow_builders import LATER, gate_on

pytestmark = pytest.mark.needs("within")

_MOST = 50
"""No enqueue has more statements; it would mean that the counting is broken."""


class Fuse:
    """Makes the ``at``-th statement on a caller's connection fail before it is sent, once."""

    def __init__(self) -> None:
        self.at = 0
        self.seen = 0

    @property
    def blown(self) -> bool:
        return self.seen >= self.at > 0

    def light(self, at: int) -> None:
        self.at, self.seen = at, 0

    def passing(self) -> None:
        if not self.blown:
            self.seen += 1
            if self.blown:
                raise StoreBusy("somebody else was quicker")


class Fused:
    """A caller's connection with the fuse in it; everything else is as it was."""

    def __init__(self, joined: Any, fuse: Fuse, *, waits: bool) -> None:
        self._joined = joined
        self._fuse = fuse
        self.fetch = self._fetch_async if waits else self._fetch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._joined, name)

    def _fetch(self, query: Query) -> Sequence[Row]:
        self._fuse.passing()
        rows: Sequence[Row] = self._joined.fetch(query)
        return rows

    async def _fetch_async(self, query: Query) -> Sequence[Row]:
        self._fuse.passing()
        rows: Sequence[Row] = await self._joined.fetch(query)
        return rows


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    """In every connection that is joined."""
    fuse = Fuse()
    kinds: Any = ((BLOCKING, False), (ASYNC, True))
    for makers, waits in kinds:
        for name, make in list(makers.items()):
            fused = _fused(make, fuse, waits=waits)
            monkeypatch.setitem(makers, name, fused)
    return fuse


def _fused(make: Callable[[Any], Any], fuse: Fuse, *, waits: bool) -> Callable[[Any], Any]:
    return lambda connection: Fused(make(connection), fuse, waits=waits)


@pytest.fixture(params=["blocking", "async"])
def commit(
    request: pytest.FixtureRequest, store: Store, caller: Backend
) -> Callable[[Effects], Awaitable[bool]]:
    """Commits effects in a transaction that the caller commits whatever happens; False: busy."""

    async def blocking(effects: Effects) -> bool:
        with caller.transaction() as connection:
            try:
                store.commit_within_blocking(connection, effects)
            except StoreBusy:
                return False
            finally:
                connection.commit()
            return True

    async def waiting(effects: Effects) -> bool:
        async with caller.async_transaction() as connection:
            try:
                await store.commit_within(connection, effects)
            except StoreBusy:
                return False
            finally:
                await connection.commit()
            return True

    return blocking if request.param == "blocking" else waiting


async def test_a_caller_who_commits_after_an_error_commits_nothing_of_the_effects(
    store: Store,
    caller: Backend,
    commit: Callable[[Effects], Awaitable[bool]],
    fuse: Fuse,
) -> None:
    watched = await add(store)
    gate = gate_on(watched)
    jobs = (new_job(announce=1), new_job(LATER, gate=gate.id))
    effects = Effects(jobs=jobs, gates=(gate,), messages=(message(), message()), log=(event(),))
    before, done = caller.content(), False
    for place in range(1, _MOST):
        fuse.light(place)
        done = await commit(effects)
        if not fuse.blown:
            break
        assert not done
        assert caller.content() == before, f"statement {place} failed"
    assert 2 < place < _MOST - 1
    assert done
    assert len(await store.get([job.id for job in jobs])) == 2
