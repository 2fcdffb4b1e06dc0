"""Gates that could never fire, or say two things of one job, are refused before a write."""

from __future__ import annotations

from typing import Any

import pytest

import offpath
from offpath import Context, Gate, InvalidArgument, Job, JobState, Plan
from offpath.errors import GateError, PlanError
from tests.unit.edge_cases.bench import Bench

GATE: Any = offpath.gate
"""The value as callers without a type checker see it."""


@pytest.fixture
def jobs(bench: Bench) -> list[Job[int, int]]:
    @bench.app.task
    async def leaf(n: int) -> int:
        return n

    return [leaf.job(n) for n in range(4)]


def chain(jobs: list[Job[int, int]]) -> list[Gate[int]]:
    """Each waits for the one before it, and the first for the last."""
    before = [jobs[-1], *jobs[:-1]]
    return [offpath.gate(on=[one], queue=[then]) for one, then in zip(before, jobs, strict=True)]


async def nothing_is_stored(bench: Bench) -> bool:
    return await bench.app.jobs.count(task=bench.app.tasks["leaf"].name) == 0


def test_a_gate_does_not_wait_for_what_it_holds(jobs: list[Job[int, int]]) -> None:
    with pytest.raises(GateError, match="a job that it holds"):
        offpath.gate(on=jobs[:2], queue=jobs[1:])


@pytest.mark.parametrize("length", [2, 3, 4])
async def test_gates_do_not_wait_for_each_other(
    bench: Bench, jobs: list[Job[int, int]], length: int
) -> None:
    with pytest.raises(GateError, match="none of them would ever fire"):
        await bench.app.enqueue(chain(jobs[:length]))
    assert await nothing_is_stored(bench)


async def test_a_batch_refuses_them_too(bench: Bench, jobs: list[Job[int, int]]) -> None:
    with pytest.raises(GateError):
        async with bench.app.batch() as batch:
            batch.enqueue(chain(jobs))
    assert await nothing_is_stored(bench)


async def test_a_chain_of_gates_is_none_of_these(bench: Bench, jobs: list[Job[int, int]]) -> None:
    await bench.app.enqueue([jobs[0], *chain(jobs)[1:]])
    await bench.run()
    states = {(await bench.record(job.id)).state for job in jobs}
    assert states == {JobState.SUCCEEDED}


async def test_a_job_waits_at_one_gate(bench: Bench, jobs: list[Job[int, int]]) -> None:
    first, second, held, _ = jobs
    two = [offpath.gate(on=[one], queue=[held]) for one in (first, second)]
    wrong: list[list[Any]] = [
        [first, second, *two],
        [first, held, two[0]],
        [first, two[0], held],
    ]
    for sent in wrong:
        with pytest.raises(GateError, match="waits at one gate"):
            await bench.app.enqueue(sent)
    assert await nothing_is_stored(bench)


async def test_a_call_may_be_repeated(bench: Bench, jobs: list[Job[int, int]]) -> None:
    gate = offpath.gate(on=jobs[:2], queue=jobs[2:])
    await bench.app.enqueue([*jobs[:2], gate, gate, jobs[0]])
    await bench.app.enqueue([*jobs[:2], gate])
    await bench.run()
    assert await bench.app.jobs.count(state="succeeded") == len(jobs)


async def test_a_plan_with_gates_in_a_circle_is_dead_at_once(
    bench: Bench, jobs: list[Job[int, int]]
) -> None:
    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(*chain(jobs))

    handle = await root.enqueue()
    await bench.run()
    record = await handle.status()
    assert (record.state, record.reason) == (JobState.DEAD, "invalid_plan")
    assert record.failure is not None
    assert record.failure.type == PlanError.__name__
    assert await nothing_is_stored(bench)


@pytest.mark.parametrize(
    ("on", "queue", "says"),
    [
        ("task", "jobs", "takes jobs, handles and ids, not AsyncTask"),
        ("jobs", "job", "takes a list of jobs"),
        ("jobs", "none", "at least one job"),
    ],
)
def test_what_is_given_wrongly_is_named(
    bench: Bench, jobs: list[Job[int, int]], on: str, queue: str, says: str
) -> None:
    given = {"task": [bench.app.tasks["leaf"]], "jobs": jobs[:1], "job": jobs[1], "none": []}
    with pytest.raises(InvalidArgument, match=says):
        GATE(on=given[on], queue=given[queue])
