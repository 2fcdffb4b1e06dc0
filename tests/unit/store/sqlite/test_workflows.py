"""SQLite's own part of workflows: plans, the file of the version before, wide fan-outs."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState, NewGate
from offpath.model.group import Contribution, GroupRecord
from offpath.model.job import JobState
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.model.wait import NewSignal
from offpath.runtime.clock import ManualClock
from offpath.store.programs import groups
from offpath.store.protocol import Store
from offpath.store.sqlite import SqliteStore, migrate
from offpath.store.sqlite.dialect import SqliteDialect
from offpath.store.sqlite.file import DatabaseFile
from offpath.store.sqlite.session import SQL, connect
from tests.conformance.builders import enqueue, join, new_job, start, take, uid

STATEMENTS = (
    "adopt_groups",
    "lock_groups",
    "give_to_groups",
    "mark_groups",
    "groups_there",
    "open_members",
    "members_to_close",
    "reopen_groups",
    "drop_groups",
    "groups",
    "known_gates",
    "add_watches",
    "watch_jobs",
    "lock_jobs",
    "behind_gates",
    "count_watches",
    "uncount_gates",
    "uncount_watches",
    "count_gates",
    "decide_gates",
    "release_gated",
    "end_gated",
    "missed_signals",
    "due_blocked",
    "due_queued",
    "judge_waits",
    "give_up",
    "time_out_gates",
    "met_signal",
    "catch_signals",
    "uncounted",
    "note_counted",
    "gates",
    "drop_watches",
    "drop_gates",
    "settle_blocked",
    "hold_job",
    "step",
    "steps",
    "unmark_undo",
    "forget_undo",
    "undoing",
    "take_undo",
    "forget_steps",
    "wake_sleeper",
    "signals_there",
    "take_signal",
    "expire_signals",
    "anything_over",
)

_SMALL = ("offpath_job_undoing", "offpath_job_uncounted", "offpath_group_to_close")
"""Partial indexes that hold only what is asked for."""
_OURS = ("job", "root", "member", "other", "gate", "seen", "sent", "old", "held", "gone", "past")


def walks(connection: sqlite3.Connection, name: str) -> list[str]:
    """Steps of a plan that read a table of ours from end to end."""
    statement = SQL[name]
    values = dict.fromkeys(statement.parameters, 1)
    lines = [
        str(row[3]) for row in connection.execute(f"explain query plan {statement.named}", values)
    ]
    return [
        line
        for line in lines
        if line.startswith("SCAN ")
        and (line.split()[1] in _OURS or line.split()[1].startswith("offpath_"))
        and not any(index in line for index in _SMALL)
    ]


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_of_workflows_walks_a_table(
    store: SqliteStore, path: Path, name: str
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        found = walks(connection, name)
        # its first row ends the look, and it is else empty
        assert [line for line in found if line != "SCAN offpath_signal_left"] == []


async def test_a_wide_fan_out_releases_its_join_once(store: Store) -> None:
    await join(store)
    root = new_job()
    await enqueue(store, root)
    children = [new_job(group_id=root.id) for _ in range(3_000)]
    gate = NewGate(id=uid(7), on=tuple(each.id for each in children[:1_000]), need=1_000)
    last = new_job(group_id=root.id, gate=gate.id)
    await store.commit(Effects(jobs=(*children, last), gates=(gate,)))
    done = 0
    while jobs := await take(store, limit=500):
        answers = await store.settle(
            [Settlement(job=job, outcome=Succeeded(result=f'"{job.id}"')) for job in jobs]
        )
        done += sum(each.group_done for each in answers)
    [kept] = await store.gates([gate.id])
    [group] = await store.groups([root.id])
    assert (kept.state, kept.succeeded) == (GateState.FIRED, 1_000)
    assert (group.open, group.failed, group.result) == (0, 0, f'"{last.id}"')
    assert done == 1


async def test_a_fold_that_raises_is_refused_alone(store: Store) -> None:
    def add(so_far: str | None, new: str) -> str:
        return str(int(so_far or 0) + int(new))

    await join(store)
    root = new_job()
    await enqueue(store, root, *(new_job(group_id=root.id) for _ in range(7)))
    jobs = await take(store, limit=8)
    answers = await store.settle(
        [
            Settlement(
                job=job,
                outcome=Succeeded(),
                effects=Effects(
                    contributions=(Contribution(payload="x" if n == 3 else "1", fold=add),)
                ),
            )
            for n, job in enumerate(jobs)
        ]
    )
    refused = [n for n, each in enumerate(answers) if each.status is SettleStatus.REFUSED]
    [group] = await store.groups([root.id])
    assert refused == [3]
    assert (group.open, group.result) == (1, "7")


async def test_what_an_older_worker_ended_is_counted_by_the_next_sweep(
    store: Store, path: Path
) -> None:
    """It writes the job's row and knows of no gate."""
    await join(store)
    watched, held = new_job(), new_job(gate=uid(7))
    gate = NewGate(id=uid(7), on=(watched.id,), need=1, of=Counting.SETTLED)
    await store.commit(Effects(jobs=(watched, held), gates=(gate,)))
    await take(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute(
            "update offpath_job set state = 'succeeded', worker = null, finished_at = 1"
            " where id = ?",
            (watched.id,),
        )
    assert (await store.states([held.id]))[held.id] is JobState.BLOCKED
    await store.expire_blocked(limit=10)
    assert (await store.states([held.id]))[held.id] is JobState.QUEUED
    assert await store.expire_blocked(limit=10) == []


async def test_groups_of_the_version_before_have_counts_and_a_value(
    path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = """
        insert into offpath_job (
            id, task, queue, state, priority, run_at, enqueued_at, group_id, fingerprint, options,
            input, result, finished_at
        )
        values (?, 'mail.send', 'default', ?, 0, 1, 1, 'root', 'f', '{}', '{}', ?, ?)
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "KNOWN", migrate.KNOWN[:3])
            old.executescript(migrate.script())
        old.execute(insert, ("root", "succeeded", "5", 2))
        old.execute(insert, ("dead", "dead", None, 2))
        old.execute(insert, ("open", "ready", None, None))
        old.execute("insert into offpath_group (id, open) values ('root', 1)")
    store = SqliteStore(path, clock=clock)
    await store.open()
    [group] = await store.groups(["root"])
    assert (group.open, group.failed, group.result, group.closing) == (1, 1, "5", False)
    await join(store)
    [job] = await take(store)
    [settled] = await store.settle([Settlement(job=job, outcome=Succeeded(result="6"))])
    assert settled.group_done
    await store.close()


async def test_signals_that_are_over_are_removed_by_the_sweep(
    store: Store, path: Path, clock: ManualClock
) -> None:
    signal = NewSignal(id=uid(1), target="order", event="paid", payload="1", keep=10)
    assert await store.send_signal(signal)
    assert not await store.send_signal(signal)
    clock.advance(11)
    await store.expire_blocked(limit=10)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from offpath_signal").fetchone() == (0,)


async def test_a_group_that_gets_members_while_it_is_read_is_not_done(
    store: SqliteStore, path: Path
) -> None:
    """Its root ends, and its first member comes, before whatever is read second."""
    root = await start(store)
    child = new_job(parent=root.id)
    ending = Settlement(job=root, outcome=Succeeded(), effects=Effects(jobs=(child,)))
    loop = asyncio.get_running_loop()
    seen: list[str] = []

    def before(name: str) -> None:
        seen.append(name)
        if len(seen) == 2:
            asyncio.run_coroutine_threadsafe(store.settle([ending]), loop).result(10)

    def read() -> list[GroupRecord]:
        session = connect(
            DatabaseFile(path), before=before, patience=1.0, create=False, reading=True
        )
        try:
            return session.perform(groups.listed(SqliteDialect(0), [root.id]))
        finally:
            session.close()

    (group,) = await asyncio.to_thread(read)
    assert not group.done
