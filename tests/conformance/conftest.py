"""The store under test, once per backend: open, empty, and living by a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import NAMES, Backend, store_class
from tests.conformance.builders import START

MakeStore = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> ManualClock:
    """The time of every store in the test."""
    return ManualClock(START)


@pytest.fixture(params=NAMES)
def empty_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place where nothing is yet, not even a schema."""
    name = str(request.param)
    try:
        store_class(name)
    except (ImportError, AttributeError) as error:
        pytest.skip(f"{name} cannot be imported: {error}")
    if name == "postgres":
        return Backend(name, str(request.getfixturevalue("postgres_url")))
    return Backend(name, str(tmp_path / "jobs.db") if name == "sqlite" else "")


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place with a schema and no jobs."""
    name = str(request.param)
    try:
        store_class(name)
    except (ImportError, AttributeError) as error:
        pytest.skip(f"{name} cannot be imported: {error}")
    if name == "postgres":
        copy = request.getfixturevalue("database_from_template")
        return Backend(name, str(copy("conformance", _migrate)))
    return Backend(name, str(tmp_path / "jobs.db") if name == "sqlite" else "")


@pytest.fixture
async def make_store(backend: Backend, clock: ManualClock) -> AsyncIterator[MakeStore]:
    """Opens one more store on the same data, closed after the test."""
    made: list[Store] = []

    async def make() -> Store:
        store = backend.store(clock)
        made.append(store)
        await store.open()
        return store

    yield make
    for store in reversed(made):
        await store.close()


@pytest.fixture
async def store(make_store: MakeStore) -> Store:
    """The store under test."""
    return await make_store()


@pytest.fixture
async def other(store: Store, make_store: MakeStore) -> Store:
    """A second process's view of the same data."""
    if not store.capabilities.shared:
        pytest.skip("the data cannot be shared between processes")
    return await make_store()


@pytest.fixture
async def rivals(store: Store, make_store: MakeStore) -> tuple[Store, ...]:
    """Four stores that compete for the same data; one four times where it cannot be shared."""
    if not store.capabilities.shared:
        return (store,) * 4
    return (store, await make_store(), await make_store(), await make_store())


def _migrate(url: str) -> None:
    async def run() -> None:
        store = Backend("postgres", url).store(None)
        try:
            await store.migrate()
        finally:
            await store.close()

    # a thread of its own: the test's event loop may already be the current one here
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()
