"""A file of the first schema, with rows in it, is brought up to date; older workers go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offpath.model.announce import CANCELLED, QUEUED, RUNNING, SUCCEEDED
from offpath.model.job import JobState
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.sqlite import SqliteStore, migrate
from tests.conformance.builders import START, add, join, new_job, take
from tests.conformance.message_builders import announcements

OLD_INSERT = """
    insert into offpath_job (
        id, task, queue, state, priority, run_at, enqueued_at, group_id, fingerprint, options, input
    )
    values (:id, 'mail.send', 'default', 'ready', 0, 1, 1, :id, 'f', '{}', '{}')
"""
"""The writes of a worker of the version before."""
OLD_WORKER = """
    insert into offpath_worker (id, info, started_at, seen_at, expires_at, presence)
    values (
        'w', '{"id":"w","host":"h","pid":1,"version":"0","concurrency":1,"tasks":[]}', 1, 1, 2, 0
    )
"""


@pytest.fixture
def old(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A file of the first schema, made as the first version made it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "KNOWN", migrate.KNOWN[:1])
            connection.executescript(migrate.script())
        yield connection


async def test_a_file_of_the_first_schema_is_upgraded_with_its_rows(
    old: sqlite3.Connection, path: Path, clock: ManualClock
) -> None:
    old.execute(OLD_INSERT, {"id": "before"})
    old.execute(OLD_WORKER)
    store = SqliteStore(path, clock=clock)
    assert [each.number for each in await store.migrate()] == [
        each.number for each in migrate.KNOWN[1:]
    ]
    await store.open()
    [record] = await store.get(["before"])
    assert (record.task, record.state) == ("mail.send", JobState.QUEUED)
    [worker] = await store.workers()
    assert (worker.info.id, worker.report, worker.gone_at) == ("w", None, None)
    await join(store)
    [held] = await take(store)
    [settled] = await store.settle([Settlement(job=held, outcome=Succeeded())])
    assert (settled.id, settled.state) == ("before", JobState.SUCCEEDED)
    assert await announcements(store) == []
    await store.close()


async def test_the_script_upgrades_it_as_well(
    old: sqlite3.Connection, path: Path, clock: ManualClock
) -> None:
    old.execute(OLD_INSERT, {"id": "before"})
    old.executescript(migrate.script(after=1))
    store = SqliteStore(path, clock=clock)
    assert await store.migrate() == []
    await store.open()
    assert await store.states(["before"]) == {"before": JobState.QUEUED}
    await store.close()


async def test_an_older_worker_goes_on_and_its_changes_are_told(
    store: SqliteStore, path: Path
) -> None:
    """It knows neither of the new columns nor of messages; the file does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute(OLD_INSERT, {"id": "silent"})
        older.execute(OLD_WORKER)
        told = await add(store, announce=QUEUED | RUNNING | SUCCEEDED | CANCELLED)
        start = "update offpath_job set state = 'running', worker = 'w', deliveries = 1"
        older.execute(f"{start}, started_at = enqueued_at + 5 where id in ('silent', ?)", (told,))
        older.execute("update offpath_job set state = 'ready', worker = null, attempt = 2")
        older.execute("delete from offpath_worker where id = 'w'")
    found = await announcements(store)
    assert {each["job"] for each in found} == {told}
    assert [(each["previous"], each["state"]) for each in found] == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "queued"),
    ]
    assert [each["sequence"] for each in found] == [1, 4, 5]
    assert found[2]["at"] == found[1]["at"] > found[0]["at"]


async def test_an_older_files_leftovers_do_not_hinder_new_jobs(
    old: sqlite3.Connection, path: Path, clock: ManualClock
) -> None:
    for number in range(3):
        old.execute(OLD_INSERT, {"id": f"old{number}"})
    store = SqliteStore(path, clock=clock)
    await store.open()
    new = await add(store, announce=QUEUED)
    [message] = await announcements(store)
    assert message["job"] == new
    assert message["at"].startswith(START.strftime("%Y-%m-%dT%H:%M:%S"))
    assert len(await store.states(["old0", "old1", "old2", new])) == 4
    await store.close()


def test_new_jobs_of_builders_announce_nothing() -> None:
    assert new_job().announce == 0


async def test_whom_gates_watch_is_kept_when_the_table_is_made_anew(
    path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that was made, and half counted, by the version before fires as ever."""
    with closing(sqlite3.connect(path, isolation_level=None)) as before:
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "KNOWN", migrate.KNOWN[:6])
            before.executescript(migrate.script())
        for job, state in (("done", "ready"), ("here", "ready"), ("held", "blocked")):
            before.execute(OLD_INSERT.replace("'ready'", f"'{state}'"), {"id": job})
        before.executescript("""
            update offpath_job set watched = 1 where id in ('done', 'here');
            update offpath_job set gate = 'g', reason = 'gate' where id = 'held';
            insert into offpath_job_gate (id, need, counting, total, succeeded)
            values ('g', 3, 'succeeded', 3, 1);
            insert into offpath_gate_watch (job, gate, place, early, outcome)
            values ('done', 'g', 0, 0, 'succeeded'), ('here', 'g', 1, 0, null),
                ('early', 'g', 2, 1, null);
        """)
    store = SqliteStore(path, clock=clock)
    await store.open()
    [gate] = await store.gates(["g"])
    assert (gate.on, gate.succeeded) == (("done", "here", "early"), 1)
    await add(store, id="early")
    await join(store)
    ended = [each for each in await take(store) if each.id != "done"]
    assert {each.id for each in ended} == {"here", "early"}
    await store.settle([Settlement(job=each, outcome=Succeeded()) for each in ended])
    assert await store.states(["held"]) == {"held": JobState.QUEUED}
    await store.close()
