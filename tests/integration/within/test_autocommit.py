"""A SQLAlchemy connection without transactions is refused before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from offpath.errors import WrongConnection
from tests.integration.within.callers import sqlalchemy_url

if TYPE_CHECKING:
    from collections.abc import Callable

    import offpath

    UrlOf = Callable[[str], str]
    AppMaker = Callable[[str], offpath.App]
DRIVERS = [("postgres", "psycopg"), ("sqlite", "pysqlite")]
ASYNC_DRIVERS = [("postgres", "psycopg"), ("postgres", "asyncpg"), ("sqlite", "aiosqlite")]


@pytest.mark.parametrize("of_engine", [True, False], ids=["engine", "connection"])
@pytest.mark.parametrize(("dialect", "driver"), DRIVERS)
async def test_a_level_without_transactions_is_refused(
    url_of: UrlOf, make_app: AppMaker, dialect: str, driver: str, *, of_engine: bool
) -> None:
    url = url_of(dialect)
    app = make_app(url)
    await app.open()
    options = {"isolation_level": "AUTOCOMMIT"} if of_engine else {}
    engine = sa.create_engine(sqlalchemy_url(url, driver), **options)
    with engine.connect() as connection:
        if not of_engine:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")  # noqa: PLW2901
        with pytest.raises(WrongConnection, match="isolation level AUTOCOMMIT"):
            await app.enqueue(app.tasks["double"].job(1), within=connection)
    with (
        orm.Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session,
        pytest.raises(WrongConnection, match="isolation level AUTOCOMMIT"),
    ):
        await app.enqueue([app.tasks["double"].job(n) for n in range(3)], within=session)
    engine.dispose()
    assert await app.jobs.count() == 0


@pytest.mark.parametrize(("dialect", "driver"), ASYNC_DRIVERS)
async def test_an_async_session_without_transactions_is_refused(
    url_of: UrlOf, make_app: AppMaker, dialect: str, driver: str
) -> None:
    url = url_of(dialect)
    app = make_app(url)
    await app.open()
    engine = create_async_engine(sqlalchemy_url(url, driver), isolation_level="AUTOCOMMIT")
    async with AsyncSession(engine) as session:
        with pytest.raises(WrongConnection, match="isolation level AUTOCOMMIT"):
            await app.enqueue(app.tasks["double"].job(1), within=session)
    await engine.dispose()
    assert await app.jobs.count() == 0
