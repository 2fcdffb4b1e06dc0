"""A store's report on itself, and its schema as a script to run by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator

import pytest

from offpath.errors import CapabilityMissing
from offpath.model.effects import Effects
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Finding, Level, Store
from tests.conformance.backends import Backend
from tests.conformance.builders import fresh_id, join, new_job, take
from tests.conformance.workflow_builders import gate_on, hold

# Each says what is done to the only job, with the constraints out of the way.
DAMAGE = {
    "running without a worker": "state = 'running', worker = null",
    "held though it does not run": "state = 'ready', worker = 'w1'",
    "unknown state": "state = 'thinking'",
    "ended without a time, or a time without an end": "state = 'dead', finished_at = null",
    "a count below its least": "attempt = -1",
    "options that are not JSON": "options = 'nonsense'",
    "progress that is not JSON": "progress = 'nonsense'",
}


def named(findings: list[Finding], name: str) -> Finding:
    return next(each for each in findings if each.name == name)


async def test_a_sound_store_has_no_problem(store: Store) -> None:
    await join(store)
    await store.commit(Effects(jobs=(new_job(), new_job())))
    await take(store)
    findings = await store.diagnose()
    assert [each for each in findings if each.level is Level.PROBLEM] == []
    assert len({each.name for each in findings}) == len(findings)
    assert all(each.message for each in findings)


@pytest.fixture
async def plain(empty_backend: Backend, clock: ManualClock) -> AsyncIterator[Store]:
    """An open store with a schema of its own: these tests break it."""
    if empty_backend.name not in {"sqlite", "postgres"}:
        pytest.skip("there are no rows that a statement of a test's own could change")
    store = empty_backend.store(clock)
    await store.migrate()
    await store.open()
    yield store
    await store.close()


def damage(backend: Backend, statement: str) -> None:
    if backend.name == "sqlite":
        connection = sqlite3.connect(backend.place, timeout=10, isolation_level=None)
        connection.execute("pragma ignore_check_constraints = 1")
        connection.execute(statement)
        connection.close()
        return
    constraints = backend.execute(
        "select conname from pg_constraint where conrelid in "
        "('offpath.job'::regclass, 'offpath.job_group'::regclass, 'offpath.job_gate'::regclass)"
        " and contype = 'c'"
    )
    for (name,) in constraints:
        for table in ("job", "job_group", "job_gate"):
            backend.execute(f"alter table offpath.{table} drop constraint if exists {name}")
    backend.execute(statement)


@pytest.mark.parametrize("fault", DAMAGE)
async def test_an_impossible_row_is_named(plain: Store, empty_backend: Backend, fault: str) -> None:
    job = new_job()
    await plain.commit(Effects(jobs=(job,)))
    table = "offpath_job" if empty_backend.name == "sqlite" else "offpath.job"
    damage(empty_backend, f"update {table} set {DAMAGE[fault]}")
    rows = named(await plain.diagnose(), "rows")
    assert rows.level is Level.PROBLEM
    assert f"{job.id} ({fault})" in rows.message


@pytest.mark.parametrize("column", ["state", "counting"])
async def test_a_gate_that_nobody_knows_how_to_judge_is_named(
    plain: Store, empty_backend: Backend, column: str
) -> None:
    gate = gate_on(fresh_id(), timeout=60)
    await hold(plain, gate)
    assert named(await plain.diagnose(), "rows").level is Level.FINE
    table = "offpath_job_gate" if empty_backend.name == "sqlite" else "offpath.job_gate"
    damage(empty_backend, f"update {table} set {column} = 'foreign'")
    rows = named(await plain.diagnose(), "rows")
    assert rows.level is Level.PROBLEM
    assert f"gate {gate.id} (unknown state, or way of counting)" in rows.message


async def test_a_group_of_no_known_policy_is_named(plain: Store, empty_backend: Backend) -> None:
    root = new_job()
    await plain.commit(Effects(jobs=(root, new_job(group_id=root.id, parent=root.id))))
    table = "offpath_group" if empty_backend.name == "sqlite" else "offpath.job_group"
    damage(empty_backend, f"update {table} set policy = 'foreign'")
    assert f"group {root.id} (unknown policy)" in named(await plain.diagnose(), "rows").message


async def test_a_group_that_counts_wrong_is_named(plain: Store, empty_backend: Backend) -> None:
    root = new_job()
    child = new_job(group_id=root.id, parent=root.id)
    await plain.commit(Effects(jobs=(root, child)))
    assert named(await plain.diagnose(), "groups").level is Level.FINE
    table = "offpath_group" if empty_backend.name == "sqlite" else "offpath.job_group"
    damage(empty_backend, f"update {table} set open = -1")
    groups = named(await plain.diagnose(), "groups")
    assert groups.level is Level.WARNING
    assert f"{root.id} (counts -1 open jobs, has 2)" in groups.message


async def test_a_job_whose_worker_is_gone_is_named(plain: Store, empty_backend: Backend) -> None:
    job = new_job()
    await join(plain)
    await plain.commit(Effects(jobs=(job,)))
    await take(plain)
    assert named(await plain.diagnose(), "holders").level is Level.FINE
    table = "offpath_worker" if empty_backend.name == "sqlite" else "offpath.worker"
    damage(empty_backend, f"delete from {table}")
    holders = named(await plain.diagnose(), "holders")
    assert holders.level is Level.WARNING
    assert f"{job.id} (held by w1)" in holders.message


def run_by_hand(backend: Backend, script: str) -> None:
    if backend.name == "sqlite":
        file = sqlite3.connect(backend.place)
        file.executescript(script)
        file.close()
        return
    import psycopg

    with psycopg.connect(backend.place, autocommit=True) as connection:
        connection.execute(script.encode())


async def test_the_script_makes_a_schema_that_is_known_as_applied(
    empty_backend: Backend, clock: ManualClock
) -> None:
    store = empty_backend.store(clock)
    if empty_backend.name not in {"sqlite", "postgres"}:
        with pytest.raises(CapabilityMissing):
            store.migration_script()
        return
    try:
        run_by_hand(empty_backend, store.migration_script())
        steps = await store.migrations()
        assert steps
        assert all(step.applied_at is not None for step in steps)
        assert await store.migrate() == []
        assert store.migration_script(after=steps[-1].number).strip() == ""
        await store.open()
        job = new_job(id=fresh_id())
        await store.commit(Effects(jobs=(job,)))
        assert await store.states((job.id,))
    finally:
        await store.close()
