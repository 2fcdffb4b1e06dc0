"""Statements of Postgres, by the transition that sends them, for a table that is filled."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import psycopg
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import Failure, LeasedJob, NewJob, UniqueClaim
from offpath.model.lease import LeaseRequest, WorkerInfo
from offpath.model.settlement import Retry, Settlement, Succeeded
from offpath.runtime.ids import new_id
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.effects import commit_steps
from offpath.store.postgres.groups import queries
from offpath.store.postgres.lease import Leases
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.postgres.settle import settle_steps, succeed_steps
from offpath.store.programs import jobs, reads, redrives, suspects, workers
from offpath.store.programs.group_work import GroupWork
from offpath.store.protocol import JobRedrive
from offpath.store.sql import Query, catalogue

BATCH = 100

SQL = catalogue(PACKAGE)
D = PostgresDialect(SQL, None)


def _held(connection: psycopg.Connection[Any], worker: str = "worker-3") -> list[LeasedJob]:
    rows = connection.execute(
        """
        select j.id::text, j.task, j.queue, j.worker, coalesce(j.group_id, j.id::text)
        from offpath.job j where j.worker = %s limit %s
        """,
        (worker, BATCH),
    ).fetchall()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        LeasedJob(
            id=job,
            task=task,
            queue=queue,
            input="{}",
            worker=holder,
            deliveries=1,
            attempt=1,
            options="{}",
            group_id=group,
            priority=0,
            run_at=moment,
            enqueued_at=moment,
        )
        for job, task, queue, holder, group in rows
    ]


def _ids(connection: psycopg.Connection[Any], state: str) -> list[str]:
    query = "select id::text from offpath.job where state = %s limit %s"
    return [row[0] for row in connection.execute(query, (state, BATCH))]


def _lease(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    request = LeaseRequest(
        worker="worker-3", limit=BATCH, tasks={f"task-{n}": BATCH if n % 2 else 3 for n in range(9)}
    )
    return next(Leases(few=0).steps(request, None, sql=SQL)).queries


def _lease_of_few(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    request = LeaseRequest(
        worker="worker-3", limit=BATCH, tasks={f"task-{n}": BATCH for n in range(9)}
    )
    return next(Leases().steps(request, None, sql=SQL)).queries


def _lease_behind_marks(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    """As the next lease is, when the last one has taken the tenth job of each lane."""
    request = LeaseRequest(
        worker="worker-3", limit=BATCH, tasks={f"task-{n}": BATCH for n in range(9)}
    )
    leases = Leases()
    rows = connection.execute(
        """
        select j.queue, j.task, j.id::text, j.priority, offpath.micros(j.run_at)
        from (
            select r.*, row_number() over (
                partition by r.queue, r.task order by r.priority desc, r.run_at, r.id
            ) as nth
            from offpath.job r where r.state = 'ready'
        ) as j
        where j.nth = 10
        """
    ).fetchall()
    survey = json.dumps({"lanes": [row[:2] for row in rows]})
    leases.front.looked(request, survey, leases.front.begin(), None)
    taken = [
        replace(job, queue=queue, task=task, id=id_, priority=priority)
        for job, (queue, task, id_, priority, _) in zip(_held(connection), rows, strict=False)
    ]
    leases.front.took(taken, [row[4] for row in rows[: len(taken)]], wanted=1)
    return next(leases.steps(request, None, sql=SQL)).queries


def _succeed(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    settlements = [Settlement(job=job, outcome=Succeeded(result="1")) for job in _held(connection)]
    return next(succeed_steps(settlements, None, sql=SQL)).queries


def _settle(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    outcome = Retry(delay=1.0, failure=Failure(kind="error", type="E", message="m"))
    settlements = [Settlement(job=job, outcome=outcome) for job in _held(connection)]
    return next(settle_steps(settlements, None, sql=SQL)).queries


def _succeed_in_company(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    settlements = [Settlement(job=job, outcome=Succeeded()) for job in _held(connection)]
    return next(settle_steps(settlements, None, sql=SQL)).queries


def _trim(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return (SQL["trim_failures"](ids=json.dumps(_ids(connection, "dead")), keep=50),)


def _groups(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    work = GroupWork(more=Counter(f"group-{n * 10}" for n in range(BATCH)))
    for n in range(BATCH):
        work.end(f"group-{n * 10}", failed=False)
    ids = json.dumps(["group-990"])
    closing = SQL["members_to_close"](limit=BATCH), SQL["open_members"](ids=ids, limit=BATCH)
    return (*queries(work, None, sql=SQL), *closing, SQL["groups"](ids=ids))


def _gates(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    rows = connection.execute("select job::text from offpath.gate_watch limit 100").fetchall()
    ids = json.dumps([row[0] for row in rows])
    ended = {
        "succeeded": json.dumps([row[0] for row in rows[:50]]),
        "failed": json.dumps([row[0] for row in rows[50:]]),
    }
    gates = connection.execute("select id::text from offpath.job_gate limit 10").fetchall()
    decided = json.dumps([row[0] for row in gates])
    return (
        SQL["lock_jobs"](ids=ids),
        SQL["lock_jobs_and_holders"](ids=ids, keys='["key-1", "key-2"]'),
        SQL["watch_jobs"](ids=ids),
        SQL["count_gates"](**ended),
        SQL["count_gates_now"](**ended),
        SQL["note_counted"](ids=ids),
        SQL["uncount_gates"](ids=ids),
        SQL["uncount_watches"](ids=ids),
        SQL["release_gated"](now=None, ids=decided),
        SQL["end_gated"](now=None, ids=decided, keep=None),
        SQL["note_behind"](ids=decided),
        SQL["drop_watches"](ids=decided),
        SQL["drop_gates"](ids=decided),
        SQL["gates"](ids=decided),
    )


def _expire(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    blocked = _ids(connection, "blocked")
    ids = json.dumps(blocked)
    over = json.dumps([{"id": job, "fate": "deadline"} for job in blocked])
    return (
        SQL["anything_over"](now=None),
        SQL["due_blocked"](now=None, limit=BATCH),
        SQL["due_queued"](now=None, limit=BATCH),
        SQL["uncounted"](limit=BATCH),
        SQL["behind_gates"](limit=BATCH, fired="[]"),
        SQL["missed_signals"](now=None, limit=BATCH),
        SQL["expire_signals"](now=None, limit=BATCH),
        SQL["time_out_gates"](now=None, ids=ids),
        SQL["judge_waits"](now=None, ids=ids),
        SQL["give_up"](now=None, batch=over, keep=None),
        SQL["undoing"](limit=BATCH, after=None),
        SQL["undoing"](limit=BATCH, after=_ids(connection, "dead")[0]),
        SQL["wake_sleeper"](now=None, target="nobody", event="e"),
        SQL["catch_signals"](now=None, ids=ids),
    )


def _rarely(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    """Statements that are only sent where workflows meet: still never over a whole table."""
    rows = connection.execute("select job::text from offpath.gate_watch limit 100").fetchall()
    jobs = json.dumps([row[0] for row in rows])
    gates = connection.execute("select id::text from offpath.job_gate limit 10").fetchall()
    held = json.dumps([row[0] for row in gates])
    groups = json.dumps([f"group-{n * 10}" for n in range(BATCH)])
    counts = json.dumps([{"id": f"group-{n * 10}", "more": 1} for n in range(BATCH)])
    decided = json.dumps([{"id": row[0], "state": "fired"} for row in gates])
    return (
        SQL["known_gates"](ids=held),
        SQL["lock_gates"](ids=held, watching=jobs),
        SQL["lock_gates_of"](ids=jobs),
        SQL["wait_at_gates"](ids=jobs),
        SQL["decide_gates"](batch=decided),
        SQL["reopen_groups"](batch=counts),
        SQL["restore_groups"](now=None, ids=jobs),
        SQL["drop_groups"](ids=groups),
        SQL["look_again"](limit=BATCH),
        SQL["found_again"](ids=jobs),
        SQL["watch_found"](ids=jobs),
        SQL["found_roots"](ids=jobs),
        SQL["forget_unseen"](places="[1, 2]", found=jobs),
        SQL["forget_undo"](ids=jobs),
        SQL["take_signal"](now=None, target="nobody", event="e"),
    )


def _extend(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    worker = WorkerInfo(id="worker-3", host="h", pid=1, version="1", concurrency=1, tasks=("t",))
    return next(workers.extend(D, worker, 30.0, None, _held(connection))).queries


def _signals(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return next(workers.signals(D, "worker-3", _held(connection))).queries


def _rescue(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    ids = _ids(connection, "running")
    fates = [
        {"id": job, "state": "ready", "reason": None, "ended": 0, "begun": 1, "suspected": None}
        for job in ids
    ]
    failure = {"kind": "worker_lost", "type": "WorkerLost", "message": "m"}
    failures = [{"id": job, "delivery": 1, "failure": failure} for job in ids]
    return (
        SQL["spared_workers"](now=None, leases=3, own="[]"),
        SQL["orphans"](now=None, limit=BATCH, kept="[]"),
        SQL["rescue"](now=None, batch=json.dumps(fates), keep=None),
        SQL["clear_suspects"](crashes='["worker-3"]'),
        SQL["add_failures"](now=None, batch=json.dumps(failures)),
        SQL["note_gone_workers"](now=None),
    )


def _suspects(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    tasks = {f"task-{n}": BATCH for n in range(10)}
    request = LeaseRequest(worker="worker-3", limit=BATCH, tasks=tasks, suspects_only=True)
    return next(suspects.offered(D, request)).queries


def _cancel(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    ids = _ids(connection, "running") + _ids(connection, "ready")
    return next(jobs.cancel(D, ids)).queries


def _redrive(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    ids = _ids(connection, "dead")
    program = redrives.redrive(D, [JobRedrive(id=job) for job in ids])
    return next(program).queries + program.send([[(job,) for job in ids]]).queries


def _delete(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    ids = json.dumps(_ids(connection, "dead"))
    names = ("hold_jobs", "remove_failures", "remove_steps", "remove_jobs")
    return tuple(SQL[name](ids=ids) for name in names)


def _prune(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    late = datetime(2100, 1, 1, tzinfo=UTC)
    return next(jobs.prune(PostgresDialect(SQL, late), limit=BATCH)).queries


def _limits(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    keys = json.dumps(["key-3"])
    rows = connection.execute("select id::text from offpath.job where limit_key = 'key-3' limit 10")
    ids = json.dumps([row[0] for row in rows])
    batch = json.dumps([{"key": "key-3", "jobs": 1}])
    return (
        SQL["limit_turns"](now=None, most=200),
        SQL["limit_outlook"](now=None, keys=None),
        SQL["waiting_limits"](keys=keys, now=None, most=100),
        SQL["make_limits"](keys=keys),
        SQL["lock_limits"](keys=keys),
        SQL["hold_untaken"](keys=keys, now=None),
        SQL["recount_limits"](keys=keys, now=None),
        SQL["read_nudges"](keys=keys),
        SQL["rates_of"](keys=keys, now=None),
        SQL["pick_held"](keys=keys, now=None, limit=BATCH),
        SQL["admit_jobs"](ids=ids, now=None),
        SQL["save_limits"](batch=batch, now=None),
        SQL["hold_closed"](keys=keys, now=None),
        SQL["count_held"](limit=BATCH),
        SQL["prune_limits"](now=None, limit=BATCH),
    )


def _orders(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    tasks = json.dumps({f"task-{n}": 10 for n in range(10)})
    shared = {"worker": "worker-3", "tasks": tasks, "queues": "[]", "rooms": "{}", "reach": 10}
    turn = {"from": "", "keys": 64, "best": 10}
    names = {"ready_by_priority": {}, "ready_by_turn": turn, "ready_by_age": {}}
    lists = ("[]", json.dumps(_ids(connection, "ready")))
    return tuple(
        SQL[name](now=None, declined=each, **shared, **own)
        for name, own in names.items()
        for each in lists
    )


def _commit(_: psycopg.Connection[Any]) -> tuple[Query, ...]:
    jobs = [
        NewJob(
            id=new_id(),
            task="task-1",
            input="{}",
            fingerprint="f",
            unique=UniqueClaim(key=f"key-{n}"),
        )
        for n in range(BATCH)
    ]
    first = next(commit_steps(Effects(jobs=tuple(jobs)), None, sql=SQL))
    ids = json.dumps([job.id for job in jobs])
    keys = json.dumps([f"key-{n}" for n in range(BATCH)])
    return (
        first,
        SQL["same_ids"](ids=ids),
        SQL["holders"](keys=keys, now=None),
        SQL["lock_holders"](keys=keys, now=None),
        SQL["release_keys"](keys=keys, now=None),
        SQL["join_roots"](ids=ids),
        SQL["withdraw"](ids=ids),
    )


def _states(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return next(reads.states(D, _ids(connection, "running"))).queries


def _get(connection: psycopg.Connection[Any]) -> tuple[Query, ...]:
    return next(reads.get(D, _ids(connection, "dead"))).queries


TRANSITIONS = {
    make.__name__.strip("_"): make
    for make in (
        _lease,
        _lease_of_few,
        _lease_behind_marks,
        _succeed,
        _settle,
        _succeed_in_company,
        _trim,
        _groups,
        _gates,
        _expire,
        _rarely,
        _extend,
        _signals,
        _rescue,
        _suspects,
        _cancel,
        _redrive,
        _delete,
        _prune,
        _limits,
        _orders,
        _commit,
        _states,
        _get,
    )
}
