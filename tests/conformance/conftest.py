"""The store under test, once per backend: open, empty, and living by a clock that tests move."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from offpath.errors import CapabilityMissing
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.brokers import VALKEY, Broker
from tests.conformance.backends import NAMES, Backend, offered_by, runs
from tests.conformance.bench import Bench
from tests.conformance.builders import START
from tests.conformance.kept_sessions import kept_sessions
from tests.conformance.roles import VARIABLE, member_of
from tests.conftest import missing_server
from tests.servers import Databases, NoServer
from tests.sqlite_files import migrated_file

MakeStore = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="session", autouse=True)
def _kept() -> Iterator[None]:
    """A new session costs the server more than most tests."""
    with kept_sessions():
        yield


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
    if backend_name == "redis":
        return Backend(backend_name, str(request.getfixturevalue("flushed_redis")))
    return Backend(backend_name, str(tmp_path / "jobs.db") if backend_name == "sqlite" else "")


@pytest.fixture
def backend(backend_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place with a schema and no jobs."""
    if backend_name == "postgres":
        place = str(request.getfixturevalue("swept_postgres"))
        return Backend(backend_name, place, str(request.getfixturevalue("postgres_login")))
    if backend_name == "sqlite":
        return Backend(backend_name, str(migrated_file(tmp_path / "jobs.db")))
    if backend_name == "redis":
        return Backend(backend_name, str(request.getfixturevalue("flushed_redis")))
    return Backend(backend_name, "")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """One server for all tests. Nothing of it is kept: no test here ends it."""
    yield from _served(Broker("redis", more=_FORGETS))


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[str]:
    """One server of Valkey's."""
    yield from _served(Broker("redis", more=_FORGETS, program=VALKEY))


_FORGETS = ("--appendonly", "no", "--save", "")


def _served(server: Broker) -> Iterator[str]:
    try:
        server.start()
        yield server.url
    except NoServer as error:
        missing_server(str(error))
    finally:
        server.destroy()


@pytest.fixture
def flushed_redis(redis_server: str) -> str:
    """That server, without a key."""
    return _flushed(redis_server)


@pytest.fixture
def flushed_valkey(valkey_server: str) -> str:
    """The server of Valkey's, without a key."""
    return _flushed(valkey_server)


def _flushed(server: str) -> str:
    with redis.Redis.from_url(server) as client:
        client.flushall()
    return f"{server}?durability=process"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a plain run does not take on a backend of some profiles."""
    left_out = [item for item in items if not _runs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _runs(item)]


def _runs(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)  # a test without parameters has none
    name = None if call is None else call.params.get("backend_name")
    return name is None or runs(name, item.path.stem.removeprefix("test_"))


@pytest.fixture(autouse=True)
def _offered(request: pytest.FixtureRequest) -> None:
    """Skip a test of a profile that the backend does not offer, and say which it is."""
    marks = [str(mark.args[0]) for mark in request.node.iter_markers("needs")]
    if marks and "backend_name" in request.fixturenames:
        offered = offered_by(str(request.getfixturevalue("backend_name")))
        for profile in marks:
            if profile not in offered:
                pytest.skip(f"not offered: {profile}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A test of what the backend does not offer is skipped, with what that is."""
    try:
        return (yield)
    except CapabilityMissing as error:
        backend = item.funcargs.get("backend") if isinstance(item, pytest.Function) else None
        if error.profile is None or not isinstance(backend, Backend) or backend.name != "redis":
            raise
        pytest.skip(f"not offered: {error}")


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
