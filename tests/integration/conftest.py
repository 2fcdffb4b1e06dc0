"""Stores, clients and worker processes for tests with real processes and real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import offpath
from tests.conftest import missing_server
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.proxy import Proxy
from tests.integration.redis_servers import Servers
from tests.servers import NoServer, PostgresCluster, migrate, with_database
from tests.sqlite_files import migrated_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.integration.kafka_broker import KafkaBroker

    MakeApp = Callable[..., offpath.App]


@pytest.fixture
def pg_url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    """A migrated Postgres database."""
    return database_from_template("schema", migrate)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that processes share, of each kind."""
    if request.param == "sqlite":
        return migrated_url(tmp_path / "work.db")
    found: str = request.getfixturevalue("pg_url")
    return found


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Callable[[str], Fleet]]:
    """``make_fleet(url)``: starts workers, all of which are gone after the test."""
    made: list[Fleet] = []

    def make(url: str) -> Fleet:
        made.append(Fleet(tmp_path, url))
        return made[-1]

    yield make
    for fleet in made:
        fleet.destroy()


@pytest.fixture
def fleet(make_fleet: Callable[[str], Fleet], url: str) -> Fleet:
    """Workers of the store under test."""
    return make_fleet(url)


@pytest.fixture
async def make_app() -> AsyncIterator[MakeApp]:
    """``make_app(url)``: an app with the service's tasks, closed after the test."""
    made: list[offpath.App] = []

    def make(url: str, **keywords: object) -> offpath.App:
        app = offpath.App(url, **keywords)  # type: ignore[arg-type]
        for task in service.app.tasks.values():
            app.tasks.add(task)
        made.append(app)
        return app

    yield make
    for app in made:
        await app.close()


@pytest.fixture
async def app(make_app: MakeApp, url: str) -> offpath.App:
    """A client of the store under test, open."""
    made = make_app(url)
    await made.open()
    return made


@pytest.fixture
def proxy_before() -> Iterator[Callable[[str], tuple[Proxy, str]]]:
    """``proxy_before(url)``: a proxy before that server, and the URL that goes through it."""
    made: list[Proxy] = []

    def make(url: str) -> tuple[Proxy, str]:
        parts = urlsplit(url)
        if parts.hostname is None:
            pytest.skip("the server is reached through a socket file, where no proxy fits")
        proxy = Proxy(parts.hostname, parts.port or 5432)
        made.append(proxy.__enter__())
        user = f"{parts.username}@" if parts.username else ""
        return proxy, f"postgresql://{user}127.0.0.1:{proxy.port}{parts.path}"

    yield make
    for proxy in made:
        proxy.__exit__()


@pytest.fixture
def program() -> str:
    """The program of a test's Redis servers: the one that the environment names."""
    return ""


@pytest.fixture
def servers(program: str) -> Iterator[Servers]:
    """Redis servers of the test, which it adds; all end with it."""
    made = Servers()
    made.program = program
    yield made
    for server in made:
        server.destroy()


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    """A server of this module's own, which its tests stop and start."""
    try:
        server = PostgresCluster.create()
    except NoServer as reason:
        missing_server(str(reason))
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture
def cluster_url(cluster: PostgresCluster, request: pytest.FixtureRequest) -> str:
    """A migrated database on the module's own server."""
    import psycopg

    name = f"t{abs(hash(request.node.name))}"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    url = with_database(cluster.url, name)
    migrate(url)
    return url


@pytest.fixture
def kafka_broker() -> Iterator[KafkaBroker]:
    """A broker that speaks Kafka's protocol, of the test's own."""
    from tests.integration.kafka_broker import KafkaBroker  # moto is slow to import

    try:
        made = KafkaBroker()
    except NoServer as reason:
        missing_server(str(reason))
    try:
        made.start()
        yield made
    finally:
        made.destroy()
