"""The store under test, once per backend: open, empty, and living by a clock that tests move."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import NAMES, Backend
from tests.conformance.bench import Bench
from tests.conformance.builders import START
from tests.conformance.roles import VARIABLE, member_of
from tests.servers import Databases
from tests.sqlite_files import migrated_file

MakeStore = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> ManualClock:
    """The time of every store in the test."""
    return ManualClock(START)


@pytest.fixture(params=NAMES)
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backend that the test runs on."""
    return str(request.param)


@pytest.fixture
def empty_backend(backend_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place where nothing is yet, not even a schema."""
    if backend_name == "postgres":
        place = Backend(backend_name, str(request.getfixturevalue("postgres_url")))
        place.hurry()
        return place
    return Backend(backend_name, str(tmp_path / "jobs.db") if backend_name == "sqlite" else "")


@pytest.fixture
def backend(backend_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place with a schema and no jobs."""
    if backend_name == "postgres":
        place = str(request.getfixturevalue("swept_postgres"))
        return Backend(backend_name, place, str(request.getfixturevalue("postgres_login")))
    if backend_name == "sqlite":
        return Backend(backend_name, str(migrated_file(tmp_path / "jobs.db")))
    return Backend(backend_name, "")


@pytest.fixture(scope="session")
def migrated_postgres(postgres_databases: Databases) -> Iterator[str]:
    """One database for all tests: to make one takes longer than most tests."""
    url = postgres_databases.create()
    Backend("postgres", url).hurry()
    _migrate(url)
    yield url
    postgres_databases.drop(url)


@pytest.fixture(scope="session")
def postgres_login(migrated_postgres: str) -> Iterator[str]:
    """The user of that database's stores: its owner, or a member of the role that is asked for."""
    role = os.environ.get(VARIABLE)
    if role is None:
        yield ""
        return
    with member_of(role, migrated_postgres) as url:
        yield url


@pytest.fixture
def swept_postgres(migrated_postgres: str) -> str:
    """The same database, without a row in any table."""
    Backend("postgres", migrated_postgres).sweep()
    return migrated_postgres


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
async def bench(
    store: Store, backend: Backend, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Bench]:
    """For backends whose statements can be made to fail."""
    if not store.capabilities.durable:
        pytest.skip("no statements: a transition is one step of the event loop")
    await store.close()
    bench = Bench(backend, clock, tmp_path)
    yield bench
    await bench.close()


@pytest.fixture
def caller(store: Store, backend: Backend) -> Backend:
    """Callers with transactions of their own, which the store can join."""
    if not store.capabilities.within:
        pytest.skip("there is no transaction to join")
    return backend


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
