"""Fixtures that every kind of test may use: a clean environment, and Postgres."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.brokers import Broker, find_broker
from tests.servers import Databases, NoServer, PostgresCluster, find_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Wall time says nothing on a busy machine: a slow example is not a failing one.
settings.register_profile(
    "offpath", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("offpath")


def pytest_collection_finish() -> None:
    """Thousands of collected tests outlive every one of them. A collector that walks them again
    and again takes an eighth of the time of a suite.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own settings must not change what is tested."""
    for name in tuple(os.environ):
        if name == "DATABASE_URL" or (
            name.startswith("OFFPATH_") and not name.startswith("OFFPATH_TEST_")
        ):
            monkeypatch.delenv(name)


def missing_server(reason: str) -> NoReturn:
    """Skip the test on a laptop; fail it where ``CI`` is set, since there it would hide a hole."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a running server on which databases may be made."""
    try:
        return find_postgres()
    except NoServer as reason:
        missing_server(str(reason))


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str) -> Iterator[Databases]:
    """Makes databases, also as copies of a template that is filled once per process."""
    databases = Databases(postgres_server)
    yield databases
    databases.close()


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """A fresh, empty database, dropped after the test."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture
def database_from_template(
    postgres_databases: Databases,
) -> Iterator[Callable[[str, Callable[[str], None]], str]]:
    """``database_from_template(name, build)``: a copy of what ``build(url)`` filled once."""
    made: list[str] = []

    def copy(name: str, build: Callable[[str], None]) -> str:
        made.append(postgres_databases.from_template(name, build))
        return made[-1]

    yield copy
    for url in made:
        postgres_databases.drop(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresCluster]:
    """A server of the test's own, started, which it may stop, restart and crash."""
    try:
        cluster = PostgresCluster.create()
    except NoServer as reason:
        missing_server(str(reason))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.destroy()


def _running(kind: str) -> str:
    try:
        return find_broker(kind)
    except NoServer as reason:
        missing_server(str(reason))


@pytest.fixture(scope="session")
def nats_url() -> str:
    """A running NATS server with JetStream."""
    return _running("nats")


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A running Redis server."""
    return _running("redis")


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """A running RabbitMQ server."""
    return _running("rabbitmq")


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """``own_broker("nats", …)``: a started broker of the test's own, which it may stop."""
    made: list[Broker] = []

    def start(kind: str, *more: str) -> Broker:
        made.append(Broker(kind, more))
        try:
            made[-1].start()
        except NoServer as reason:
            missing_server(str(reason))
        return made[-1]

    yield start
    for broker in made:
        broker.destroy()
