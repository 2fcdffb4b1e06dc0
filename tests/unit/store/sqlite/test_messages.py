"""The file's own rules: the mark of who leads a key, ids, constraints, undone jobs."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offpath.errors import UniqueConflict
from offpath.model.announce import QUEUED, RUNNING, STREAM
from offpath.model.effects import Effects
from offpath.model.job import UniquePolicy
from offpath.model.message import MessageFilter
from offpath.model.settlement import Released, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.sqlite import SqliteStore
from tests.conformance.builders import add, join, new_job, take, unique
from tests.conformance.log_builders import append, event, read
from tests.conformance.log_builders import declare as declare_router
from tests.conformance.message_builders import (
    dead,
    end_message,
    find_all,
    finish,
    hand,
    inbound,
    message,
    post,
    put,
    retry,
)

LEADING = """
    select stream, key, position from offpath_message
    where state = 'pending' and leads = 1 and key is not null
    order by 1, 2, 3
"""
FIRST = """
    select stream, key, min(position) from offpath_message
    where state = 'pending' and key is not null group by stream, key
    order by 1, 2
"""


@pytest.fixture
def connection(store: SqliteStore, path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


def require_leaders(connection: sqlite3.Connection) -> None:
    """Exactly the first pending message of each key leads it."""
    assert connection.execute(LEADING).fetchall() == connection.execute(FIRST).fetchall()


@pytest.mark.parametrize("seed", range(8))
async def test_the_first_pending_of_each_key_leads_it(
    store: SqliteStore, connection: sqlite3.Connection, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    known: list[str] = []
    for _ in range(40):
        step = chance.choice(("write", "write", "settle", "revive", "delete"))
        if step == "write":
            new = [message(key=chance.choice("abc")) for _ in range(chance.randint(1, 6))]
            doubled = [message(id=one.id, key="d") for one in new[:1]]
            await post(store, *new, *doubled, message(key="d"))
            known += [one.id for one in new]
        elif step == "settle":
            held = await hand(store, limit=8, ordered=chance.random() < 0.5)
            outcomes = (Succeeded(), retry(chance.choice((0, 5))), dead(), Released())
            ended = [finish(one, chance.choice(outcomes)) for one in held]
            chance.shuffle(ended)
            await store.settle_messages(ended)
        else:
            some = chance.sample(known, min(len(known), 4))
            await (store.revive_messages if step == "revive" else store.delete_messages)(some)
        clock.advance(1)
        require_leaders(connection)


async def test_a_batch_of_one_key_hands_the_lead_on(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    await post(store, *(message(key="k") for _ in range(10)))
    held = await hand(store, limit=4, ordered=True)
    await store.settle_messages([finish(one) for one in reversed(held)])
    require_leaders(connection)
    assert connection.execute(LEADING).fetchall() == [("s", "k", 5)]


# -- announced jobs --------------------------------------------------------------------------------


async def test_an_announcement_has_a_canonical_random_id(store: SqliteStore) -> None:
    for _ in range(40):
        await add(store, announce=QUEUED)
    ids = [each.id for each in await find_all(store)]
    assert len(set(ids)) == 40
    for each in ids:
        made = uuid.UUID(each)
        assert (str(made), made.version, made.variant) == (each, 4, uuid.RFC_4122)


async def test_a_change_by_any_statement_is_told(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    job = await add(store, announce=RUNNING)
    assert await find_all(store) == []
    connection.execute(
        "update offpath_job set state = 'running', worker = 'w', started_at = 7 where id = ?",
        (job,),
    )
    [told] = await find_all(store)
    assert (told.stream, told.key, told.topic) == (STREAM, job, "job.running")


async def test_a_refused_batch_leaves_no_announcement(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    await add(store, unique=unique("k"))
    refused = new_job(unique=unique("k", policy=UniquePolicy.REFUSE))
    jobs = (new_job(announce=QUEUED), refused)
    connection.execute("begin immediate")
    with pytest.raises(UniqueConflict):
        store.commit_within_blocking(connection, Effects(jobs=jobs, messages=(message(),)))
    connection.execute("commit")
    assert await find_all(store) == []


# -- on the caller's connection --------------------------------------------------------------------


async def test_messages_and_events_share_the_fate_of_the_callers_rows(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    effects = Effects(messages=(message(), inbound("k")), log=(event(),))
    connection.execute("begin immediate")
    answers = store.commit_within_blocking(connection, effects)
    assert [answer.created for answer in answers] == [True, True]
    connection.execute("rollback")
    assert await find_all(store) == []
    assert await store.read_events() == []
    connection.execute("begin immediate")
    store.commit_within_blocking(connection, effects)
    connection.execute("commit")
    assert len(await find_all(store)) == 2
    assert len(await store.read_events()) == 1


async def test_a_position_that_was_trimmed_is_not_given_again(store: SqliteStore) -> None:
    """The horizon would go back, and a cursor beyond it would never see what comes."""
    await append(store, event(domain="other"))
    [gone] = await store.read_events()
    clock = await store.ping()
    assert await store.trim_log(before=clock.replace(year=clock.year + 1), limit=10) == 1
    await declare_router(store, start="now")
    await append(store, event())
    page = await read(store, after=gone.position)
    assert [each.position for each in page.events] == [gone.position + 1]
    assert page.horizon == gone.position + 1


# -- constraints -----------------------------------------------------------------------------------

IMPOSSIBLE = {
    "state": "update offpath_message set state = 'odd'",
    "box": "update offpath_message set box = 'odd'",
    "no key in the inbox": "update offpath_message set box = 'in', key = null",
    "held though done": "update offpath_message set state = 'done', holder = 'h'",
    "done without a time": "update offpath_message set state = 'done', finished_at = null",
    "attempt": "update offpath_message set attempt = 0",
    "deliveries": "update offpath_message set deliveries = -1",
    "two of one source and key": """
        insert into offpath_message (id, box, stream, key, due_at, created_at, payload)
        values ('a', 'in', 's', 'k', 1, 1, ''), ('b', 'in', 's', 'k', 1, 1, '')
    """,
    "cursor": """
        insert into offpath_cursor (router, partition, start, position) values ('r', 0, 0, -1)
    """,
    "attempts of one number": """
        insert into offpath_attempt (router, event, number, position, status, route, at)
        values ('r', 'e', 1, 1, 'sent', '-', 1), ('r', 'e', 1, 1, 'sent', '-', 1)
    """,
    "gate": "insert into offpath_gate (router, open) values ('r', 2)",
}


@pytest.mark.parametrize("statement", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_the_file_refuses_what_must_not_be(
    store: SqliteStore, connection: sqlite3.Connection, statement: str
) -> None:
    await put(store)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)


# -- hints -----------------------------------------------------------------------------------------


async def listened(store: SqliteStore) -> tuple[list[Hint], Callable[[], None]]:
    """The hints of a listener from now on, once it was told that what came before is not known."""
    hints: list[Hint] = []
    begun = asyncio.Event()

    def hear(hint: Hint) -> None:
        hints.append(hint)
        if len(hints) == len(Hint):
            begun.set()

    stop = store.listen(hear)
    async with asyncio.timeout(10):
        await begun.wait()
    hints.clear()
    return hints, stop


async def test_messages_are_hinted_at_after_what_writes_them(store: SqliteStore) -> None:
    hints, stop = await listened(store)
    await join(store)
    await add(store)
    [held] = await take(store)
    assert Hint.MESSAGES not in hints
    await put(store)
    assert hints.pop() is Hint.MESSAGES
    await add(store, announce=RUNNING)
    hints.clear()
    await take(store)
    assert Hint.MESSAGES in hints
    assert held.id
    stop()


async def test_an_end_that_lets_nothing_else_go_is_not_hinted_at(store: SqliteStore) -> None:
    await put(store)
    await put(store, key="k")
    held = await hand(store)
    hints, stop = await listened(store)
    await end_message(store, held[0])
    assert hints == []
    await end_message(store, held[1])
    assert hints == [Hint.MESSAGES]
    stop()
    page = await store.find_messages(MessageFilter(keys=("k",)))
    assert len(page.items) == 1
