"""Sessions that carry the app: each driver, each way in which a transaction can end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

import offpath
from offpath.contrib.sqlalchemy import attach, on
from offpath.errors import InvalidArgument, WrongConnection
from tests.contrib.urls import async_urls, blocking_url, run_sql
from tests.servers import migrate

if TYPE_CHECKING:
    from tests.servers import PostgresCluster


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    run_sql(url, "create table orders (id integer primary key)")
    app = offpath.App(url, auto_start=False)

    @app.task
    async def receipt(order: int) -> int:
        return order

    async with app:
        yield app


@pytest.fixture
def engine(url: str) -> Iterator[Any]:
    engine = create_engine(blocking_url(url))
    yield engine
    engine.dispose()


def receipt(app: offpath.App, order: int) -> offpath.Job[Any, Any]:
    return app.tasks["receipt"].job(order)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


INSERT = "insert into orders (id) values ({})"


async def counts(app: offpath.App, url: str) -> tuple[int, int]:
    """The numbers of jobs and of rows."""
    return await app.jobs.count(), run_sql(url, "select count(*) from orders")[0][0]


async def test_an_async_session_carries_the_app(app: offpath.App, url: str) -> None:
    for number, driver in enumerate(async_urls(url), 1):
        engine = create_async_engine(driver)
        sessions = async_sessionmaker(engine)
        attach(sessions, app)
        async with sessions.begin() as session:
            await session.execute(text(INSERT.format(number)))
            await on(session).enqueue(receipt(app, number))
        assert await counts(app, url) == (number, number)
        async with sessions() as session:
            await session.execute(text(INSERT.format(99)))
            await session.info["offpath"].enqueue(receipt(app, 99))
            await session.rollback()
        assert await counts(app, url) == (number, number)
        await engine.dispose()


async def test_a_blocking_session_carries_the_app(app: offpath.App, url: str, engine: Any) -> None:
    sessions = sessionmaker(engine)
    attach(sessions, app)
    with sessions.begin() as session:
        session.execute(text(INSERT.format(1)))
        on(session).enqueue(receipt(app, 1))
    with sessions() as session:
        session.execute(text(INSERT.format(2)))
        on(session).enqueue(receipt(app, 2))
        session.rollback()
    assert await counts(app, url) == (1, 1)


@pytest.mark.parametrize("expires", [True, False])
async def test_rows_that_expire_with_the_commit_leave_the_session_its_app(
    app: offpath.App, url: str, engine: Any, expires: bool
) -> None:
    """A row that is read again begins a transaction, and the next job is one of that."""
    sessions = sessionmaker(engine, expire_on_commit=expires)
    attach(sessions, app)
    with sessions() as session:
        session.add(order := Order(id=1))
        session.flush()
        first = on(session).enqueue(receipt(app, order.id))
        session.commit()
        assert inspect(order).expired is expires
        assert on(session).enqueue(receipt(app, order.id)).id != first.id
        assert session.in_transaction()
        session.rollback()
        on(session).enqueue(receipt(app, order.id))
        session.commit()
    assert await counts(app, url) == (2, 1)


@pytest.mark.parametrize("expires", [True, False])
async def test_an_async_session_whose_rows_expire_keeps_it_too(
    app: offpath.App, url: str, expires: bool
) -> None:
    for number, driver in enumerate(async_urls(url), 1):
        engine = create_async_engine(driver)
        sessions = async_sessionmaker(engine, expire_on_commit=expires)
        attach(sessions, app)
        async with sessions() as session:
            session.add(order := Order(id=number))
            await session.flush()
            await on(session).enqueue(receipt(app, order.id))
            await session.commit()
            await session.refresh(order)
            await on(session).enqueue(receipt(app, order.id))
            await session.rollback()
        await engine.dispose()
        assert await counts(app, url) == (number, number)


async def test_a_session_of_a_registry_carries_it_too(
    app: offpath.App, url: str, engine: Any
) -> None:
    registry = scoped_session(sessionmaker(engine))
    attach(registry, app)
    registry.execute(text(INSERT.format(1)))
    on(registry).enqueue(receipt(app, 1))
    registry.commit()
    registry.remove()
    other = create_async_engine(async_urls(url)[0])
    current = async_scoped_session(async_sessionmaker(other), scopefunc=lambda: 1)
    attach(current, app)
    await current.execute(text(INSERT.format(2)))
    await on(current).enqueue(receipt(app, 2))
    await current.commit()
    await current.remove()
    await other.dispose()
    assert await counts(app, url) == (2, 2)


async def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(
    app: offpath.App, url: str, engine: Any
) -> None:
    sessions = sessionmaker(engine)
    attach(sessions, app)
    with sessions.begin() as session:
        session.execute(text(INSERT.format(1)))
        inner = session.begin_nested()
        on(session).enqueue(receipt(app, 1))
        inner.rollback()
        with session.begin_nested():
            kept = on(session).enqueue(receipt(app, 2))
    assert await app.jobs.count() == 1
    assert (await app.jobs.get(kept.id)).state == "queued"


async def test_a_commit_in_two_phases_takes_its_jobs_along(own_postgres: PostgresCluster) -> None:
    migrate(own_postgres.url)
    run_sql(own_postgres.url, "create table orders (id integer primary key)")
    engine = create_engine(blocking_url(own_postgres.url))
    async with offpath.App(own_postgres.url, auto_start=False) as app:

        @app.task(name="receipt")
        async def made(order: int) -> None: ...

        sessions = sessionmaker(engine, twophase=True)
        attach(sessions, app)
        for number, ends in enumerate(("commit", "rollback"), 1):
            with sessions() as session:
                session.execute(text(INSERT.format(number)))
                on(session).enqueue(receipt(app, number))
                session.prepare()
                assert await counts(app, own_postgres.url) == (number - 1, number - 1)
                getattr(session, ends)()
        assert await counts(app, own_postgres.url) == (1, 1)
    engine.dispose()


async def test_a_test_that_rolls_everything_back_leaves_no_job(
    app: offpath.App, url: str, engine: Any
) -> None:
    """SQLAlchemy's own recipe for tests: what the code under test commits is a savepoint."""
    if url.startswith("sqlite"):
        begin_as_sqlalchemy_says(engine)
    with engine.connect() as connection:
        outer = connection.begin()
        sessions = sessionmaker(connection, join_transaction_mode="create_savepoint")
        attach(sessions, app)
        with sessions() as session:
            session.execute(text(INSERT.format(1)))
            on(session).enqueue(receipt(app, 1))
            session.commit()
        with sessions() as session:
            found = session.execute(text("select count(*) from orders")).scalar_one()
            assert found == 1
        outer.rollback()
    assert await counts(app, url) == (0, 0)


def begin_as_sqlalchemy_says(engine: Any) -> None:
    """Let savepoints work: Python's driver begins nothing before one by itself."""

    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


async def test_a_session_of_another_database_is_refused(postgres_url: str) -> None:
    app = offpath.App(postgres_url, auto_start=False)

    @app.task(name="receipt")
    async def make(order: int) -> None: ...

    engine = create_engine("sqlite://")
    sessions = sessionmaker(engine)
    attach(sessions, app)
    with sessions() as session, pytest.raises(WrongConnection, match="sqlite connection"):
        on(session).enqueue(receipt(app, 1))
    engine.dispose()


def test_a_session_without_an_app_says_so(engine: Any) -> None:
    with Session(engine) as session, pytest.raises(InvalidArgument, match="attach"):
        on(session)


def test_only_what_makes_sessions_can_be_attached(app: offpath.App, engine: Any) -> None:
    with pytest.raises(InvalidArgument, match="sessionmaker"):
        attach(engine, app)


def test_the_last_app_that_was_attached_counts(app: offpath.App, engine: Any, url: str) -> None:
    sessions = sessionmaker(engine, info={"mine": 1})
    other = offpath.App(url, auto_start=False)
    attach(sessions, app)
    attach(sessions, other)
    with sessions() as session:
        assert on(session) is session.info["offpath"]
        assert session.info["mine"] == 1
        assert on(session).connection is session
        assert on(session)._client is other.blocking


def test_the_makers_class_stays_what_it_was(app: offpath.App, engine: Any) -> None:
    class Mine(AsyncSession):
        """A class of the user's own."""

    sessions = async_sessionmaker(class_=Mine)
    attach(sessions, app)
    assert isinstance(sessions(), Mine)
