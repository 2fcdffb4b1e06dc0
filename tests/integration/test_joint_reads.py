"""What a dashboard asks at one moment goes out as one statement, with the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from offpath.app import App
from offpath.config import Settings
from offpath.errors import StoreBusy, StoreRejected
from offpath.model.job import JobFilter, JobState
from offpath.operating import overview
from offpath.store.backends import LOOKING_CONNECTIONS, looking_store
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.joint_reads import MOST_JOINED
from offpath.store.programs.dialect import one
from offpath.store.sql import statement
from tests.integration.polling import eventually


@pytest.fixture
async def filled(pg_url: str) -> str:
    """A database with jobs, a pause and a schedule."""
    app = App(pg_url, auto_start=False, migrate=True)

    @app.task(name="send", queue="mail")
    async def send(to: str) -> None: ...

    async with app:
        await app.enqueue([send.job(f"{n}%:name\\'\"@example.org") for n in range(20)])
        await app.queues.pause("mail")
        await app.schedules.create("nightly", send.job("all"), every=3600.0)
    return pg_url


@pytest.fixture
async def looking(filled: str) -> AsyncIterator[PostgresStore]:
    """The store of a dashboard on it."""
    store = looking_store(Settings(url=filled))
    assert isinstance(store, PostgresStore)
    await store.open()
    yield store
    await store.close()


def sent_by(store: PostgresStore) -> list[str]:
    """The names of the statements that it sends from now on."""
    names: list[str] = []
    store._before_statement = names.append
    return names


async def test_what_is_asked_at_one_moment_is_one_statement(
    filled: str, looking: PostgresStore
) -> None:
    usual = PostgresStore(filled)
    await usual.open()
    names = sent_by(looking)
    where = JobFilter(states=(JobState.QUEUED,))
    together = await asyncio.gather(
        looking.queues(), looking.backlog(limit=10), looking.schedules(), looking.workers(),
        looking.find(where, limit=50),
    )  # fmt: skip
    assert names == ["joined"]
    assert [
        await usual.queues(), await usual.backlog(limit=10), await usual.schedules(),
        await usual.workers(), await usual.find(where, limit=50),
    ] == list(together)  # fmt: skip
    assert together[1][0].ready == 10
    assert "%:name" in (together[4].items[0].input or "")
    await usual.close()


async def test_the_same_question_of_several_is_asked_once(looking: PostgresStore) -> None:
    names = sent_by(looking)
    first, second = await asyncio.gather(looking.queues(), looking.queues())
    assert first == second
    assert names == ["queues"]


async def test_more_than_fit_into_one_statement_are_several(looking: PostgresStore) -> None:
    names = sent_by(looking)
    every = range(1, MOST_JOINED + 3)
    found = await asyncio.gather(*(looking.backlog(limit=most) for most in every))
    assert [one[0].ready for one in found] == [min(most, 20) for most in every]
    assert names == ["joined", "joined"]


async def test_one_that_cannot_be_answered_fails_alone(looking: PostgresStore) -> None:
    names = sent_by(looking)
    queues, bad = await asyncio.gather(
        looking.queues(),
        looking.find(JobFilter(tasks=("a\0b",)), limit=1),
        return_exceptions=True,
    )
    assert isinstance(bad, StoreRejected)
    assert not isinstance(queues, BaseException)
    assert [one.name for one in queues] == ["mail"]
    assert names == ["joined", "queues", "find_newest"]


async def test_who_leaves_takes_no_answer_away(looking: PostgresStore) -> None:
    leaving = asyncio.ensure_future(looking.queues())
    staying = asyncio.ensure_future(looking.queues())
    await asyncio.sleep(0)
    leaving.cancel()
    assert [one.name for one in await staying] == ["mail"]
    alone = asyncio.ensure_future(looking.queues())
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.sleep(0)
    # nothing of what nobody waits for is given to the next one
    assert [one.name for one in await looking.queues()] == ["mail"]


async def test_writes_are_transactions_as_ever(looking: PostgresStore) -> None:
    names = sent_by(looking)
    assert await looking.resume_queue("mail")
    assert names[0] == "begin"
    assert names[-1] == "commit"
    assert [one.paused for one in await looking.queues()] == [False]


async def test_the_overview_takes_few_statements(looking: PostgresStore, filled: str) -> None:
    app = App(settings=Settings(url=filled), store=looking, auto_start=False)
    names = sent_by(looking)
    assert (await overview.read(app)).due == 20
    assert len(names) <= 5, names


async def test_a_slow_one_holds_nobody_back_and_the_server_ends_it(
    filled: str, looking: PostgresStore
) -> None:
    """Two seconds are the server's own limit for one who looks."""
    names = sent_by(looking)
    async with await psycopg.AsyncConnection.connect(filled) as line:
        await line.execute("lock table offpath.endpoint in access exclusive mode")
        slow = asyncio.ensure_future(looking.endpoints())
        queues, schedules = await asyncio.gather(looking.queues(), looking.schedules())
        assert ([one.name for one in queues], len(schedules)) == (["mail"], 1)
        assert not slow.done()
        with pytest.raises(StoreBusy, match="statement timeout"):
            await slow
        await line.rollback()
    assert sorted(names) == ["all_schedules", "endpoints", "joined", "queues"]


async def test_all_that_is_asked_at_once_goes_over_four_sessions(
    filled: str, looking: PostgresStore
) -> None:
    sessions = "select count(*) from pg_stat_activity where application_name = %s"
    name = ("offpath-dashboard",)

    connect = psycopg.AsyncConnection.connect
    async with await connect(filled) as line, await connect(filled, autocommit=True) as eye:

        async def all_wait() -> bool:
            cursor = await eye.execute(f"{sessions} and wait_event_type = 'Lock'", name)
            return await cursor.fetchone() == (LOOKING_CONNECTIONS,)

        await line.execute("lock table offpath.job in access exclusive mode")
        where = [JobFilter(tasks=(f"task {n}",)) for n in range(12)]
        asked = [asyncio.ensure_future(looking.find(one, limit=1)) for one in where]
        await eventually(all_wait, within=30.0, what="four sessions wait for the table")
        cursor = await eye.execute(sessions, name)
        assert await cursor.fetchone() == (LOOKING_CONNECTIONS,)
        await line.rollback()
        await asyncio.gather(*asked, return_exceptions=True)


_OWN_SESSION = """
select pg_catalog.current_setting('statement_timeout'), application_name
from pg_catalog.pg_stat_activity where pid = pg_catalog.pg_backend_pid()
"""


@pytest.mark.parametrize("direct", [0, 1])
async def test_who_looks_tells_its_name_and_waits_two_seconds(filled: str, direct: int) -> None:
    """Through a pooler each transaction says so, for the session is not ours."""
    store = looking_store(Settings(url=f"{filled}?offpath_direct={direct}"))
    assert isinstance(store, PostgresStore)
    await store.open()
    told = statement("told", _OWN_SESSION)
    rows = await store._database.read(lambda: one(told()), "limit")
    assert rows == [("2s", "offpath-dashboard")]
    await store.close()
