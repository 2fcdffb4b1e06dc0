"""Group commit: what one transaction carries, and what a failure in it costs the others."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offpath.errors import IdConflict, StoreBusy, StoreRejected, StoreUnavailable
from offpath.store.hints import Hint
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite import writer as writer_module
from offpath.store.sqlite.session import Session
from tests.conformance.builders import add, ask, enqueue, join, new_job, take_one, unique


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else's write transaction."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()


class Statements:
    """Counts statements, and can fail one."""

    def __init__(self, store: SqliteStore) -> None:
        self.seen: Counter[str] = Counter()
        self.failing: dict[str, Exception] = {}
        store._before_statement = self

    def __call__(self, name: str) -> None:
        self.seen[name] += 1
        error = self.failing.pop(name, None)
        if error is not None:
            raise error


async def test_concurrent_callers_share_commits(store: SqliteStore) -> None:
    statements = Statements(store)

    await asyncio.gather(*(enqueue(store, new_job(group_id="g")) for _ in range(50)))

    commits = statements.seen["commit"]
    assert commits <= 3
    assert statements.seen["enqueue"] + statements.seen["enqueue_one"] == commits
    assert statements.seen["count_groups"] == commits


async def test_callers_who_share_a_statement_get_their_own_answers(store: SqliteStore) -> None:
    old = await add(store)
    jobs = [new_job() for _ in range(20)]
    jobs[3] = new_job(id=old)
    jobs[11] = jobs[10]
    jobs[15] = new_job(unique=unique("k"))  # one of these is done alone

    answers = await asyncio.gather(*(enqueue(store, job) for job in jobs))

    assert [answer.id for [answer] in answers] == [job.id for job in jobs]
    repeats = [at for at, [answer] in enumerate(answers) if not answer.created]
    assert repeats == [3, 11]


async def test_a_job_that_cannot_be_stored_fails_its_caller_only(store: SqliteStore) -> None:
    jobs = [new_job() for _ in range(20)]
    jobs[7] = new_job(input="a\0b")

    answers = await asyncio.gather(*(enqueue(store, job) for job in jobs), return_exceptions=True)

    failed = [at for at, answer in enumerate(answers) if isinstance(answer, BaseException)]
    assert failed == [7]
    assert isinstance(answers[7], StoreRejected)
    assert len(await store.states([job.id for job in jobs])) == 19


async def test_a_conflict_fails_its_caller_only(store: SqliteStore) -> None:
    taken = await add(store)
    jobs = [new_job() for _ in range(20)]
    jobs[7] = new_job(id=taken, fingerprint="another")

    answers = await asyncio.gather(*(enqueue(store, job) for job in jobs), return_exceptions=True)

    assert isinstance(answers[7], IdConflict)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(failed) == 1
    assert len(await store.states([job.id for job in jobs])) == 20


async def test_a_failed_commit_is_told_to_all_and_leaves_nothing(store: SqliteStore) -> None:
    statements = Statements(store)
    statements.failing["commit"] = StoreUnavailable("the disk is gone")
    jobs = [new_job() for _ in range(5)]

    answers = await asyncio.gather(*(enqueue(store, job) for job in jobs), return_exceptions=True)

    failed = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
    assert failed
    stored = await store.states([job.id for job in jobs])
    assert len(stored) == len(jobs) - len(failed)


async def test_a_failed_commit_gets_a_new_connection(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that an fsync has lost stays lost: the same handle would report it as clean."""
    await add(store)
    opened: list[Session] = []
    writer = store._writer
    assert writer is not None
    connect = writer._connect

    def counted() -> Session:
        opened.append(connect())
        return opened[-1]

    monkeypatch.setattr(writer, "_connect", counted)
    statements = Statements(store)
    broken = sqlite3.OperationalError("disk I/O error")
    broken.sqlite_errorcode = sqlite3.SQLITE_IOERR
    statements.failing["commit"] = broken
    job = new_job()

    with pytest.raises(StoreUnavailable):
        await enqueue(store, job)
    [again] = await enqueue(store, job)

    assert len(opened) == 1
    assert again.created


async def test_a_lock_of_somebody_else_is_waited_for(store: SqliteStore, path: Path) -> None:
    with locked(path):
        waiting = asyncio.create_task(enqueue(store, new_job()))
        await asyncio.sleep(0)
        assert not waiting.done()
    [answer] = await waiting
    assert answer.created


async def test_a_lock_that_stays_is_busy_and_writes_nothing(store: SqliteStore, path: Path) -> None:
    job = new_job()
    with locked(path), pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        await enqueue(store, job)
    assert await store.states([job.id]) == {}
    [answer] = await enqueue(store, job)
    assert answer.created


async def test_reads_and_the_loop_go_on_while_the_file_is_locked(
    store: SqliteStore, path: Path
) -> None:
    job_id = await add(store)
    with locked(path):
        writing = asyncio.create_task(enqueue(store, new_job()))
        assert list(await store.states([job_id])) == [job_id]
        assert not writing.done()
    await writing


async def test_an_idle_poll_needs_no_lock(store: SqliteStore, path: Path) -> None:
    await join(store)
    await add(store, delay=60)
    with locked(path):
        assert await ask(store) is not None
        assert await store.rescue(limit=10, max_deliveries=3) == []
    due = (await ask(store)).due_in
    assert due == 60


async def test_a_lease_does_not_wait_for_the_disk_and_a_settle_does(store: SqliteStore) -> None:
    await join(store)
    await add(store)
    writer = store._writer
    assert writer is not None

    await take_one(store)
    session = writer._session
    assert session is not None
    assert not session._durable
    await add(store)
    assert session._durable


async def test_no_rescue_right_after_a_stall(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the file was locked the living could not renew their leases either."""
    await join(store, "gone")
    await add(store)
    await take_one(store, "gone")
    await store.deregister("gone")
    monkeypatch.setattr(Session, "stalled", property(lambda _session: True))

    assert await store.rescue(limit=10, max_deliveries=3) == []
    monkeypatch.undo()
    assert len(await store.rescue(limit=10, max_deliveries=3)) == 1


async def test_requests_at_closing_are_answered(store: SqliteStore) -> None:
    writing = [asyncio.create_task(enqueue(store, new_job())) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()

    answers = await asyncio.gather(*writing)
    assert all(answer.created for [answer] in answers)
    with pytest.raises(StoreUnavailable, match="not open"):
        await add(store)


async def test_a_cancelled_caller_disturbs_nobody(store: SqliteStore, path: Path) -> None:
    job = new_job()
    with locked(path):
        gone = asyncio.create_task(enqueue(store, job))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    await add(store)
    assert list(await store.states([job.id])) == [job.id]


async def test_commits_of_others_are_told(store: SqliteStore, path: Path) -> None:
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    stop = store.listen(heard.put_nowait)
    other = SqliteStore(path)
    await other.open()
    await add(other)
    async with asyncio.timeout(10):
        hints = {await heard.get() for _ in Hint}
    assert hints == set(Hint)
    await other.close()
    stop()


async def test_own_commits_are_not_taken_for_those_of_others(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign: list[str] = []
    writer = store._writer
    assert writer is not None
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()
    look = writer._look

    def counted() -> None:
        look()
        loop.call_soon_threadsafe(looked.set)

    monkeypatch.setattr(writer, "_on_foreign_commit", lambda: foreign.append("commit"))
    monkeypatch.setattr(writer, "_look", counted)
    stop = store.listen(lambda _hint: None)
    async with asyncio.timeout(10):
        await looked.wait()
    assert foreign == ["commit"]  # what came before the first look is not known
    for _ in range(3):
        await add(store)
        looked.clear()
        async with asyncio.timeout(10):
            await looked.wait()
    stop()
    assert foreign == ["commit"]


async def test_a_commit_before_the_first_look_is_told(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store._writer
    assert writer is not None
    may_look, look = threading.Event(), writer._look

    def held_back() -> None:
        may_look.wait(10)
        look()

    monkeypatch.setattr(writer, "_look", held_back)
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    stop = store.listen(heard.put_nowait)
    other = SqliteStore(path)
    await other.open()
    await add(other)
    may_look.set()
    async with asyncio.timeout(10):
        assert {await heard.get() for _ in Hint} == set(Hint)
    await other.close()
    stop()


async def test_the_log_stays_bounded(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 256 * 1024
    monkeypatch.setattr(writer_module, "CHECKPOINT_BYTES", limit)
    log = path.with_name("jobs.db-wal")
    sizes = []
    for _ in range(30):
        await enqueue(store, *(new_job(input='"' + "x" * 500 + '"') for _ in range(50)))
        sizes.append(log.stat().st_size)
    assert max(sizes) < 4 * limit


async def test_a_pinned_log_holds_up_no_writer(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CHECKPOINT_BYTES", 1)
    monkeypatch.setattr(writer_module, "_PINNED_BYTES", 1)
    monkeypatch.setattr(writer_module, "_CHECKPOINT_PAUSE", 0.0)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from offpath_job").fetchall()
    for _ in range(5):
        await add(store)
    reader.execute("rollback")
    reader.close()
    await add(store)
    await add(store)
    assert path.with_name("jobs.db-wal").stat().st_size < 200_000


async def test_a_forked_child_is_told_to_open_its_own(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pytest.raises(StoreUnavailable, match="fork"):
        await add(store)
    with pytest.raises(StoreUnavailable, match="parent"):
        await store.states(["x"])


async def test_a_file_that_was_moved_away_does_not_come_back_empty(
    path: Path, tmp_path: Path
) -> None:
    store = SqliteStore(path)
    await store.open()
    writer = store._writer
    assert writer is not None
    statements = Statements(store)
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        if path.with_name(name).exists():
            path.with_name(name).rename(tmp_path / f"moved-{name}")
    statements.failing["begin"] = StoreUnavailable("the file is gone")
    with pytest.raises(StoreUnavailable):
        await add(store)

    with pytest.raises(StoreUnavailable, match="is gone"):
        await add(store)
    assert not path.exists()
    await store.close()
