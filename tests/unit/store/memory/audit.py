"""Recounts the memory backend's indexes from its records."""

from __future__ import annotations

from collections import Counter, defaultdict

from offpath.model.gate import GateState
from offpath.model.job import BlockReason, JobRecord, JobState
from offpath.store.memory import MemoryStore
from offpath.store.memory.tables import Tables

_FAILED = {JobState.DEAD, JobState.CANCELLED}


def audit(store: MemoryStore) -> None:
    """Fail unless every index says what a walk over all records says."""
    tables = store._tables
    _lanes_hold_what_waits(tables)
    _holders_have_what_runs(tables)
    _groups_know_their_members(tables)
    _limits_count_what_may_run(tables)
    _gates_know_whom_they_hold(tables)
    _records_belong_to_jobs(tables)
    _keys_belong_to_jobs_in_scope(tables)
    ended = {job.id for job in tables.jobs.values() if job.expires_at is not None}
    assert set(tables.expiring) == ended
    assert set(tables._terms) <= set(tables.jobs)
    counted = Counter((job.state, job.queue, job.task) for job in tables.jobs.values())
    assert dict(tables.tally.items()) == counted
    claims = {key for key, claim in tables.claims.items() if claim.free_at is not None}
    assert set(tables.expiring_claims) == claims


def _lanes_hold_what_waits(tables: Tables) -> None:
    waiting = {
        (job.queue, job.task, job.id)
        for job in tables.jobs.values()
        if job.state is JobState.QUEUED
    }
    in_lanes = [
        (lane.queue, lane.task, job_id)
        for lane in tables.lanes
        for job_id in (*lane.ready, *lane.scheduled)
    ]
    assert len(in_lanes) == len(set(in_lanes))
    assert set(in_lanes) == waiting
    assert all(tables.lanes), "an empty lane was kept"


def _holders_have_what_runs(tables: Tables) -> None:
    running: dict[str, set[str]] = defaultdict(set)
    for job in tables.jobs.values():
        assert (job.worker is not None) == (job.state is JobState.RUNNING)
        if job.worker is not None:
            running[job.worker].add(job.id)
    assert {worker: set(jobs) for worker, jobs in tables.held.items()} == running


def _groups_know_their_members(tables: Tables) -> None:
    members: dict[str, set[str]] = defaultdict(set)
    opened: dict[str, set[str]] = defaultdict(set)
    failed: dict[str, set[str]] = defaultdict(set)
    for job in tables.jobs.values():
        if job.group_id != job.id:
            members[job.group_id].add(job.id)
            if not job.state.terminal:
                opened[job.group_id].add(job.id)
            elif job.state is not JobState.SUCCEEDED:
                failed[job.group_id].add(job.id)
    assert tables.groups.members == members
    assert tables.groups.open == opened
    assert tables.groups.failed == failed
    assert members.keys() <= tables.groups.rows.keys() <= members.keys() | tables.jobs.keys()
    assert set(tables.groups.to_close) <= tables.groups.rows.keys()


def _limits_count_what_may_run(tables: Tables) -> None:
    ready = {each for lane in tables.lanes for each in lane.ready}
    jobs = [job for job in tables.jobs.values() if job.limit_key is not None]
    for key, row in tables.limits.rows.items():
        own = [job for job in jobs if job.limit_key == key]
        assert set(row.ready) == {job.id for job in own} & ready
        assert row.running == {job.id for job in own if job.state is JobState.RUNNING}
        held = {each for heap in row.held.values() for each in heap}
        assert held == {job.id for job in own if _is_blocked(job, BlockReason.LIMIT)}
        assert row.unended == sum(not job.state.terminal for job in own)
        assert (key in tables.limits.waiting) == bool(held)
    running = Counter(job.fair_key for job in tables.jobs.values() if job.worker is not None)
    assert tables.running_of == running


def _gates_know_whom_they_hold(tables: Tables) -> None:
    gates = tables.gates
    assert gates.decided == []
    for gate_id, held in gates.held.items():
        assert held.keys() <= tables.jobs.keys()
        assert gate_id in gates.rows
    for job in tables.jobs.values():
        if _is_blocked(job, BlockReason.GATE):
            assert job.gate in gates.rows
            assert gates.rows[job.gate].state in {GateState.OPEN, GateState.TIMED_OUT}
    for row in gates.rows.values():
        ends = [each.state for one in row.on if (each := tables.jobs.get(one))]
        if row.state is GateState.OPEN:
            assert row.succeeded >= ends.count(JobState.SUCCEEDED)
        assert all((row.id in gates.watchers.get(each, ())) for each in row.on) == (
            row.state is GateState.OPEN or not row.on
        )


def _records_belong_to_jobs(tables: Tables) -> None:
    steps = tables.steps
    assert steps.results.keys() | steps.undo.keys() <= tables.jobs.keys()
    failed = {each for each in steps.undo if tables.jobs[each].state in _FAILED}
    assert set(steps.to_undo) == failed


def _is_blocked(job: JobRecord, reason: BlockReason) -> bool:
    return job.state is JobState.BLOCKED and job.reason == reason.value


def _keys_belong_to_jobs_in_scope(tables: Tables) -> None:
    for key, job_id in tables.keys.items():
        job = tables.jobs[job_id]
        claim = tables.terms(job_id).unique
        assert claim is not None
        assert (claim.key, job.unique_key) == (key, key)
        assert job.state in claim.states
