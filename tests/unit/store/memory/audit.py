"""Recounts the memory backend's indexes from its records."""

from __future__ import annotations

from collections import Counter, defaultdict

from offpath.model.job import JobState
from offpath.store.memory import MemoryStore
from offpath.store.memory.tables import Tables


def audit(store: MemoryStore) -> None:
    """Fail unless every index says what a walk over all records says."""
    tables = store._tables
    _lanes_hold_what_waits(tables)
    _holders_have_what_runs(tables)
    _groups_know_their_children(tables)
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


def _groups_know_their_children(tables: Tables) -> None:
    children: dict[str, set[str]] = defaultdict(set)
    opened: dict[str, set[str]] = defaultdict(set)
    for job in tables.jobs.values():
        if job.group_id != job.id:
            children[job.group_id].add(job.id)
            if not job.state.terminal:
                opened[job.group_id].add(job.id)
    assert tables._children == children
    assert tables._open_children == opened


def _keys_belong_to_jobs_in_scope(tables: Tables) -> None:
    for key, job_id in tables.keys.items():
        job = tables.jobs[job_id]
        claim = tables.terms(job_id).unique
        assert claim is not None
        assert (claim.key, job.unique_key) == (key, key)
        assert job.state in claim.states
