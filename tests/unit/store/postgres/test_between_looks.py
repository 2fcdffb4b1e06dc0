"""A job that is committed between the look of an operation and its change: it is left alone.

Each statement of a transaction sees what is committed when it begins, so a later one sees more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState, NewJob, UniqueClaim, UniquePolicy
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.conformance.builders import new_job
from tests.conformance.interleaving import before
from tests.conformance.workflow_builders import limited

from .conftest import Ask, Opened, until

SECOND = timedelta(seconds=1)
_GROUP = "select open, failed from offpath.job_group where id = %s"


class Newcomer:
    """A job that another process commits when a statement is about to be sent."""

    def __init__(self, url: str, statement: str, job: NewJob) -> None:
        self._url = url
        self._statement = statement
        self._job = job
        self.came = False

    def __call__(self, name: str) -> None:
        """Told of each statement before it is sent."""
        if name == self._statement and not self.came:
            self.came = True
            other = threading.Thread(target=asyncio.run, args=(self._commit(),))
            other.start()
            other.join()

    async def _commit(self) -> None:
        store = PostgresStore(self._url)
        await store.open()
        await store.commit(Effects(jobs=(self._job,)))
        await store.close()


async def _cancel(store: PostgresStore, *ids: str) -> list[str]:
    return [one.id for one in await store.cancel(ids)]


async def _redrive(store: PostgresStore, *ids: str) -> list[str]:
    return [one.id for one in await store.redrive([JobRedrive(id=each) for each in ids])]


@pytest.mark.parametrize(
    ("statement", "operation"), [("cancel_waiting", _cancel), ("redrive", _redrive)]
)
async def test_a_job_that_comes_between_the_look_and_the_change_is_left_alone(
    opened: Opened,
    url: str,
    ask: Ask,
    statement: str,
    operation: Callable[..., Awaitable[list[str]]],
) -> None:
    store = await opened()
    root = new_job(delay=60)
    member = new_job(group_id=root.id, delay=60)
    late = new_job(group_id=root.id, delay=60)
    await store.commit(Effects(jobs=(root, member)))
    newcomer = Newcomer(url, statement, late)
    store._before_statement = newcomer
    assert await operation(store, member.id, late.id) == [member.id]
    store._before_statement = None
    assert newcomer.came
    (kept,) = await store.get([late.id])
    assert kept is not None
    assert (kept.state, kept.run_at) == (JobState.QUEUED, kept.enqueued_at + (late.delay * SECOND))
    ended = statement == "cancel_waiting"
    assert ask(_GROUP, root.id) == [(3 - ended, int(ended))]


_KEY = "api"
_WAITS = (
    "select count(*) from pg_stat_activity"
    " where wait_event_type = 'Lock' and datname = current_database()"
)
_DROPS = """
    create sequence looked;
    create function d() returns trigger language plpgsql as
    'begin perform nextval(''public.looked''); return null; end'
"""
# a sequence is seen at once, and a session that has done all it was sent waits for more
_HAS_LOOKED = """
    select l.is_called and not exists (
        select from pg_stat_activity a
        where a.datname = current_database() and a.pid <> pg_backend_pid()
            and a.state = 'active' and a.wait_event is distinct from 'ClientRead'
    )
    from looked l
"""
_STATES = "select state, count(*)::int from offpath.job group by state order by state"


@asynccontextmanager
async def _pruned_meanwhile(url: str, ask: Ask) -> AsyncIterator[None]:
    """A pass has removed the row of an idle key, and commits when somebody waits for it.

    Who looks for the row before that sees it, and does not make it.
    """
    ask("insert into offpath.limit_key (key) values (%s)", _KEY)
    with psycopg.connect(url) as pruning:
        pruning.execute("delete from offpath.limit_key where key = %s", [_KEY])

        async def end() -> None:
            await until(lambda: ask(_WAITS) == [(1,)])
            pruning.commit()

        ending = asyncio.create_task(end())
        yield
        await ending


@pytest.mark.parametrize("seconds", [60.0, None])
async def test_a_key_whose_row_is_pruned_as_it_is_closed_is_closed(
    opened: Opened, url: str, ask: Ask, seconds: float | None
) -> None:
    store = await opened()
    async with _pruned_meanwhile(url, ask):
        await store.close_limit(_KEY, seconds=seconds)
    (record,) = await store.limits(keys=[_KEY])
    assert record.paused == (seconds is None)
    assert (record.closed_until is None) == (seconds is None)


async def test_a_key_whose_row_is_pruned_as_its_jobs_are_admitted_keeps_its_limit(
    opened: Opened, url: str, ask: Ask
) -> None:
    """The limit comes with the jobs, as a nudge, and must not be taken in where no row is."""
    store = await opened()
    async with _pruned_meanwhile(url, ask):
        await store.commit(Effects(jobs=(limited(_KEY, 1), limited(_KEY, 1))))
        await store.admit(limit=10, keys=[_KEY])
    for _ in range(2):
        await store.admit(limit=10, keys=[_KEY])
    assert ask(_STATES) == [("blocked", 1), ("ready", 1)]


async def test_a_key_that_is_made_while_others_are_admitted_waits_for_the_next_pass(
    opened: Opened, url: str, ask: Ask
) -> None:
    """Its row was pruned as this pass looked for it; here a trigger sees to that."""
    store = await opened()
    await store.commit(Effects(jobs=(limited(_KEY, 1),)))
    ask(_DROPS)
    ask("create trigger drops before insert on offpath.limit_key for each row execute function d()")

    def make() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            while other.execute(_HAS_LOOKED).fetchone() != (True,):
                pass  # the statements before are on their way, and may not have been run
            other.execute("set session_replication_role = replica")
            other.execute("insert into offpath.limit_key (key, max_running) values (%s, 1)", [_KEY])

    with before(store, "pick_held", make):
        assert (await store.admit(limit=10, keys=[_KEY])).jobs == 0
    assert (await store.admit(limit=10, keys=[_KEY])).jobs == 1


async def test_removing_a_schedule_that_is_not_there_leaves_a_history_of_its_name(
    opened: Opened, ask: Ask
) -> None:
    """The row of one that is added, and fires, in the same moment."""
    store = await opened()
    ask(
        "insert into offpath.occurrence (schedule, at, made_at, outcome)"
        " values ('nightly', now(), now(), 'skipped')"
    )
    assert not await store.delete_schedule("nightly")
    assert len(await store.occurrences("nightly")) == 1


async def test_a_key_that_went_to_a_job_somebody_writes_is_not_waited_for(
    opened: Opened, url: str, ask: Ask
) -> None:
    """Its writer waits for a row of ours, so both would wait for ever."""
    store = await opened()
    claim = UniqueClaim(key="k", policy=UniquePolicy.REPLACE)
    root, other = new_job(delay=60), new_job(delay=60, unique=claim)
    await store.commit(Effects(jobs=(root, other)))
    holds = "update offpath.job set unique_held = %s where id = %s"
    ask(holds, False, other.id)
    member = new_job(group_id=root.id, unique=claim)

    def write() -> None:
        ask(holds, True, other.id)
        with psycopg.connect(url) as connection:
            for each in (other, root):
                lock = "select from offpath.job where id = %s for update"
                connection.execute(lock, [each.id])

    with before(store, "enqueue", write, waits=True) as writer:
        (made,) = await store.commit(Effects(jobs=(member,)))
    assert writer.waited
    assert (made.job_id, made.created) == (other.id, False)
    assert ask("select deadlocks from pg_stat_database where datname = current_database()") == [
        (0,)
    ]
