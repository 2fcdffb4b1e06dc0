"""Calls that wait for a session's commit: made once after it, forgotten with a rollback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from offpath.store.within.commits import after_commit


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'one.db'}")
    with engine.begin() as connection:
        connection.execute(text("create table row (id integer primary key)"))
    yield engine
    engine.dispose()


@pytest.fixture
def notes() -> list[str]:
    return []


def note(session: object, notes: list[str], what: str) -> None:
    assert after_commit(session, lambda: notes.append(what))


def test_it_is_called_after_the_commit_and_once(
    engine: sqlalchemy.Engine, notes: list[str]
) -> None:
    with Session(engine) as session:
        session.execute(text("insert into row values (1)"))
        note(session, notes, "a")
        assert notes == []
        session.commit()
        assert notes == ["a"]
        session.execute(text("insert into row values (2)"))
        session.commit()
    assert notes == ["a"]


def test_when_it_is_called_others_see_the_rows(engine: sqlalchemy.Engine) -> None:
    seen: list[int] = []

    def look() -> None:
        with engine.connect() as other:
            seen.append(other.execute(text("select count(*) from row")).scalar_one())

    with Session(engine) as session:
        session.execute(text("insert into row values (1)"))
        assert after_commit(session, look)
        session.commit()
    assert seen == [1]


@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_rollback_forgets_it(engine: sqlalchemy.Engine, notes: list[str], end: str) -> None:
    with Session(engine) as session:
        session.execute(text("insert into row values (1)"))
        note(session, notes, "a")
        getattr(session, end)()
        session.execute(text("insert into row values (2)"))
        session.commit()
    assert notes == []


def test_a_savepoint_that_is_rolled_back_forgets_what_was_said_in_it(
    engine: sqlalchemy.Engine, notes: list[str]
) -> None:
    with Session(engine) as session:
        session.execute(text("select 1"))
        note(session, notes, "outer")
        with session.begin_nested():
            note(session, notes, "kept")
            inner = session.begin_nested()
            note(session, notes, "dropped")
            inner.rollback()
        assert notes == []
        outer = session.begin_nested()
        with session.begin_nested():
            note(session, notes, "released, and then dropped")
        outer.rollback()
        session.commit()
    assert sorted(notes) == ["kept", "outer"]


def test_a_registry_stands_for_its_session(engine: sqlalchemy.Engine, notes: list[str]) -> None:
    session = scoped_session(sessionmaker(engine))
    session.execute(text("select 1"))
    note(session, notes, "a")
    session.commit()
    session.remove()
    assert notes == ["a"]


@pytest.fixture
async def async_session(tmp_path: Path) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'two.db'}")
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def test_an_async_session_tells_too(async_session: AsyncSession, notes: list[str]) -> None:
    await async_session.execute(text("select 1"))
    note(async_session, notes, "dropped")
    await async_session.rollback()
    await async_session.execute(text("select 1"))
    note(async_session, notes, "kept")
    await async_session.commit()
    assert notes == ["kept"]


def test_a_bare_connection_does_not_tell(engine: sqlalchemy.Engine, notes: list[str]) -> None:
    with engine.connect() as connection:
        assert not after_commit(connection, lambda: notes.append("never"))
        connection.commit()
    assert notes == []
