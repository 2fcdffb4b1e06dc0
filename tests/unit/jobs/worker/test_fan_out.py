"""The pieces of a large fan-out: their text, their bounds, and who knows their task."""

from __future__ import annotations

import base64
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from offpath import App, Context
from offpath.errors import DuplicateTask
from offpath.jobs.values.fan_out import decoded, encoded, in_pieces, queued_by
from offpath.jobs.worker.unclaimed import unknown
from offpath.model.effects import Effects
from offpath.model.fan_out import PIECE, PIECE_BYTES, TASK, WHOLE, divided, parts
from offpath.model.gate import NewGate
from offpath.model.group import GroupPolicy
from offpath.model.job import LeasedJob, NewJob, UniqueClaim
from offpath.model.lease import WorkerInfo
from offpath.model.limit import LimitSpec
from offpath.model.options import Options
from offpath.runtime.ids import derive_id, new_id
from offpath.store.protocol import Backlog
from tests.unit.edge_cases.bench import Bench
from tests.unit.jobs.workflows.conftest import bench

__all__ = ["bench"]

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
PARENT = new_id()


def job(number: int, **fields: object) -> NewJob:
    new = NewJob(id=derive_id(PARENT, number), task="t", input=f'{{"n":{number}}}', fingerprint="f")
    return structs.replace(new, **fields)


def leased(**fields: object) -> LeasedJob:
    plain = LeasedJob(
        id=PARENT,
        task="lead",
        queue="q",
        input="{}",
        worker="w",
        deliveries=1,
        attempt=1,
        options="{}",
        group_id=PARENT,
        priority=0,
        run_at=MOMENT,
        enqueued_at=MOMENT,
    )
    return structs.replace(plain, **fields)


def test_every_field_comes_back() -> None:
    full = NewJob(
        id=derive_id(PARENT, 0),
        task="t",
        input='{"a":"\\u0000\\"é"}',
        fingerprint="f",
        queue="q",
        priority=7,
        delay=-3e-6,
        run_at=MOMENT,
        deadline=MOMENT,
        deadline_in=12.5,
        options='{"timeout":3}',
        group_id=PARENT,
        parent=PARENT,
        dependents=(PARENT,),
        unique=UniqueClaim(key="t:k", period=3.0),
        tags=("a", "b"),
        announce=3,
        gate=new_id(),
        limit=LimitSpec(key="t", max_running=3),
        fair_key="tenant",
        headers='{"tenant":"acme"}',
        group_policy=GroupPolicy.FAIL_FAST,
    )
    plain = {
        name for name in full.__struct_fields__ if getattr(full, name) == getattr(job(0), name, 0)
    }
    assert plain <= {"id", "task", "fingerprint"}, "a field was added: give it a value here"
    assert decoded(encoded([full, job(1)])) == [full, job(1)]
    assert decoded(encoded([full])) == [full]


def test_a_text_that_nobody_wrote_is_a_value_error() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (64 * PIECE_BYTES))).decode()
    for text in ("{}", '"x"', '"eHh4"', f'"{bomb}"', '"' + encoded([job(1)])[1:40] + '"', "7"):
        with pytest.raises(ValueError):
            decoded(text)


def test_an_ordinary_fan_out_stays_as_it_is() -> None:
    effects = Effects(jobs=tuple(job(number) for number in range(WHOLE)))
    assert in_pieces(effects, leased()) is effects


def test_what_is_written_by_hand_queues_nothing_that_an_enqueue_could_not() -> None:
    forged = job(1, group_id=new_id(), gate=new_id(), unique=UniqueClaim(key="k"), parent=new_id())
    (made,) = queued_by(leased(parent=None), [forged])
    assert (made.group_id, made.parent, made.gate, made.unique) == (PARENT, None, None, None)


def test_large_inputs_are_not_packed_and_no_piece_is_large() -> None:
    large = job(0, input="x" * (PIECE_BYTES // 2 + 1))
    now, later = divided([large, job(1)], [], PARENT)
    assert (now, later) == ([large], [job(1)])
    middling = [job(number, input="x" * 100_000) for number in range(25)]
    cut = parts(middling)
    assert [one for part in cut for one in part] == middling
    assert max(sum(len(one.input) for one in part) for part in cut) <= PIECE_BYTES
    assert [len(part) for part in parts(job(n) for n in range(PIECE + 1))] == [PIECE, 1]


def test_what_may_conflict_or_is_counted_is_made_at_once() -> None:
    watched, keyed = job(1), job(2, unique=UniqueClaim(key="k"))
    held, named, of_another = job(3, gate="g"), job(4, id=new_id()), job(5, id=derive_id(_old(), 1))
    free = job(6)
    gate = NewGate(id="g", on=(watched.id,), need=1)
    now, later = divided([watched, keyed, held, named, of_another, free], [gate], PARENT)
    assert (now, later) == ([watched, keyed, held, named, of_another], [free])


def _old() -> str:
    return f"01000000-0000-7{PARENT[15:]}"


def test_every_worker_that_runs_tasks_knows_pieces() -> None:
    def info(*tasks: str) -> WorkerInfo:
        return WorkerInfo(id="w", host="h", pid=1, version="1", concurrency=1, tasks=tasks)

    due = Backlog(queue="q", task=TASK, ready=1, oldest_run_at=MOMENT)
    assert unknown(due, [info("mail")]) is None
    assert unknown(due, [info()]) == ("task", TASK)


async def test_their_task_is_nobody_elses(bench: Bench) -> None:
    with pytest.raises(DuplicateTask, match="another name"):
        bench.app.task(name=TASK)(_plain)


async def _plain() -> None: ...


async def test_a_piece_that_cannot_be_read_is_dead_by_itself(bench: Bench) -> None:
    handle = await bench.app.by_name(TASK, Options(), registered=False).enqueue(x=1)
    await bench.run()
    assert (await bench.record(handle.id)).reason == "bad_input"


async def test_ends_that_make_many_jobs_are_not_written_together() -> None:
    app, made = App(auto_start=False), []  # type: ignore[var-annotated]

    @app.task(queue="nobody")
    async def child(n: int) -> None: ...

    @app.task
    async def lead(ctx: Context, first: int) -> None:
        ctx.enqueue([child.job(first + n) for n in range(WHOLE // 2 + 1)])

    async with app:
        for number in range(3):
            await lead.enqueue(number * WHOLE)
        worker = app.worker(queues=["default"])
        settler: Any = worker._engine.settler
        settler._store = _Noted(settler._store, made)
        await worker.run_until_idle()
    assert [one for one in made if one] == [WHOLE // 2 + 1] * 3


class _Noted:
    def __init__(self, inner: object, made: list[int]) -> None:
        self._inner, self._made = inner, made

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def settle(self, settlements: Any) -> Any:
        self._made.append(sum(len(one.effects.jobs) for one in settlements))
        return await self._inner.settle(settlements)  # type: ignore[attr-defined]
