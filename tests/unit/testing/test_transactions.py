"""Transactional enqueue on memory: there after the commit, and never after a rollback."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

from offpath import App, InvalidArgument, Unique
from offpath.errors import CapabilityMissing, IdConflict, JobNotFound, WrongConnection
from offpath.testing import drain, swap_to_memory


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with Session(engine) as session:
        yield session
    engine.dispose()


@pytest.fixture
def work(app: App) -> Any:
    @app.task
    async def work(n: int) -> int:
        return n

    return work


async def test_it_is_there_after_the_commit(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app):
        handle = await work.options(within=session).enqueue(1)
        assert handle.created
        assert await app.jobs.count() == 0
        assert (await drain(app)).total == 0
        session.commit()
        assert (await drain(app)).succeeded == 1
        assert await handle.result() == 1


async def test_a_rollback_leaves_nothing(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app):
        await app.enqueue([work.job(1), work.job(2)], within=session)
        session.rollback()
        session.commit()
        assert await app.jobs.count() == 0
        await app.enqueue(work.job(3), within=session)
        session.commit()
        assert await app.jobs.count() == 1


async def test_a_savepoint_takes_its_own_along(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app):
        kept = await app.enqueue(work.job(1), within=session)
        inner = session.begin_nested()
        await app.enqueue(work.job(2), within=session)
        inner.rollback()
        with session.begin_nested():
            also = await app.enqueue(work.job(3), within=session)
        assert await app.jobs.count() == 0
        session.commit()
        assert {one.id async for one in app.jobs.each()} == {kept.id, also.id}


async def test_events_and_bound_verbs_join_too(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app):
        bound = app.bound(session)
        await bound.enqueue(work.job(1))
        await bound.publish("made", {"n": 1})
        assert (await app.messages.find()).items == ()
        session.commit()
        assert [one.topic for one in (await app.messages.find()).items] == ["made"]
        assert await app.jobs.count() == 1


async def test_a_registry_and_its_session_are_one_caller(app: App, work: Any) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    registry = scoped_session(sessionmaker(engine))
    once = work.options(unique="k")
    async with swap_to_memory(app):
        first = await app.enqueue(once.job(1), within=registry)
        again = await app.enqueue(once.job(1), within=registry())
        assert again.id == first.id
        registry.commit()
        assert await app.jobs.count() == 1
    registry.remove()
    engine.dispose()


async def test_an_async_session(app: App, work: Any) -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    async with swap_to_memory(app), AsyncSession(engine) as session:
        await app.enqueue(work.job(1), within=session)
        await session.rollback()
        await app.enqueue(work.job(2), within=session)
        assert await app.jobs.count() == 0
        await session.commit()
        assert await app.jobs.count() == 1
    await engine.dispose()


def test_blocking_code(app: App, work: Any, session: Session) -> None:
    with swap_to_memory(app):
        assert app.blocking.jobs.count() == 0  # opens the app, in another thread
        app.blocking.enqueue(work.job(1), within=session)
        assert app.blocking.jobs.count() == 0
        session.commit()
        assert app.blocking.jobs.count() == 1


def test_blocking_code_before_the_app_is_open(app: App, work: Any, session: Session) -> None:
    with swap_to_memory(app):
        app.blocking.bound(session).enqueue(work.job(1))
        session.commit()
        assert app.blocking.jobs.count() == 1


# -- answers ---------------------------------------------------------------------------------------


async def test_a_conflict_is_told_at_the_call(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app):
        taken = await work.enqueue(1)
        with pytest.raises(IdConflict):
            await app.enqueue(work.options(id=taken.id).job(2), within=session)
        session.commit()
        assert await app.jobs.count() == 1


async def test_a_unique_key_counts_within_the_transaction(
    app: App, work: Any, session: Session
) -> None:
    once = work.options(unique=Unique(key="k"))
    async with swap_to_memory(app):
        first = await app.enqueue(once.job(1), within=session)
        again = await app.enqueue(once.job(1), within=session)
        assert (again.id, again.created) == (first.id, False)
        session.rollback()
        other = await app.enqueue(once.job(1), within=session)
        assert other.created
        session.commit()
        assert [one.id async for one in app.jobs.each()] == [other.id]


# -- other modes -----------------------------------------------------------------------------------


async def test_a_driver_tells_nobody_so_it_is_there_at_once(app: App, work: Any) -> None:
    connection = sqlite3.connect(":memory:")
    async with swap_to_memory(app):
        await app.enqueue(work.job(1), within=connection)
        assert await app.jobs.count() == 1
    connection.close()


async def test_at_once_takes_any_connection(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app, within="at_once"):
        await app.enqueue(work.job(1), within=session)
        await app.enqueue(work.job(2), within=object())
        session.rollback()
        assert await app.jobs.count() == 2


async def test_what_is_no_connection_is_refused(app: App, work: Any) -> None:
    async with swap_to_memory(app):
        with pytest.raises(WrongConnection, match="cannot join"):
            await app.enqueue(work.job(1), within=object())
        assert await app.jobs.count() == 0


async def test_it_can_be_refused(app: App, work: Any, session: Session) -> None:
    async with swap_to_memory(app, within="refuse"):
        with pytest.raises(CapabilityMissing):
            await app.enqueue(work.job(1), within=session)


def test_another_mode_is_refused(app: App) -> None:
    with pytest.raises(InvalidArgument, match="commit, at_once, refuse"):
        swap_to_memory(app, within="later")  # type: ignore[call-overload]


DJANGO = """
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
)
django.setup()
from django.db import connection, transaction
from offpath import App
from offpath.testing import swap_to_memory

app = App("postgresql://nobody@127.0.0.1:1/none")


@app.task
def work(n: int) -> None: ...


with swap_to_memory(app):
    jobs = app.blocking
    with transaction.atomic():
        jobs.enqueue(work.job(1), within=connection)
        assert jobs.jobs.count() == 0
        try:
            with transaction.atomic():
                jobs.enqueue(work.job(2), within=connection)
                raise LookupError
        except LookupError:
            pass
    assert jobs.jobs.count() == 1
    try:
        with transaction.atomic():
            jobs.enqueue(work.job(3), within=connection)
            raise LookupError
    except LookupError:
        pass
    assert jobs.jobs.count() == 1
print("done")
"""


def test_django() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DJANGO], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("within", ["commit", "at_once"])
async def test_what_the_transaction_holds_back_is_read_in_it(
    app: App, work: Any, session: Session, within: Any
) -> None:
    async with swap_to_memory(app, within=within):
        before = await work.enqueue(1)
        handle = await work.options(within=session).enqueue(2)
        assert (await app.bound(session).get(handle.id)).task == "work"
        assert app.blocking.bound(session).get(before.id).task == "work"
        assert await app.jobs.count() == (1 if within == "commit" else 2), "nothing was written"
        session.rollback()
        if within == "commit":
            with pytest.raises(JobNotFound):
                await app.bound(session).get(handle.id)


async def test_a_memory_that_refuses_transactions_reads_none(
    app: App, work: Any, session: Session
) -> None:
    async with swap_to_memory(app, within="refuse"):
        handle = await work.enqueue(1)
        with pytest.raises(CapabilityMissing):
            await app.bound(session).get(handle.id)
        with pytest.raises(CapabilityMissing):
            app.blocking.bound(session).get(handle.id)
