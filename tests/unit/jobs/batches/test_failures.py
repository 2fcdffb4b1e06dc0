"""Batch tasks: each job of a call fails, snoozes and dies for itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import offpath
from offpath import JobState
from offpath.model.unsent import unsent
from tests.unit.jobs.batches.bench import Bench, doubled


def fail(_: list[int]) -> list[int]:
    raise OSError("the service is away")


async def test_a28_065_an_exception_fails_each_job_by_its_own_policy(bench: Bench) -> None:
    give = bench.giving(fail, doubled)
    patient, hasty = await give.enqueue(1), await give.options(retry=1).enqueue(2)
    await bench.idle()
    assert await bench.state(hasty) is JobState.DEAD
    assert await bench.state(patient) is JobState.QUEUED
    bench.clock.advance(1)
    await bench.idle()
    assert await patient.result() == 2
    assert (await patient.status()).attempt == 2


async def test_a28_066_a_wrong_number_of_outputs_fails_them_all(bench: Bench) -> None:
    give = bench.giving(lambda _: [], doubled)
    handles = [await give.options(retry=2).enqueue(number) for number in (1, 2)]
    await bench.idle()
    failure = (await handles[0].status()).failure
    assert failure is not None
    assert 'batch "give" returned 0 outputs for 2 inputs' in failure.message
    assert failure.type == "OutputMismatch"
    bench.clock.advance(1)
    await bench.idle()
    assert [await handle.result() for handle in handles] == [2, 4]


async def test_what_is_no_list_fails_them_all(bench: Bench) -> None:
    @bench.app.batch_task(size=2)
    async def wrong(numbers: list[int]) -> list[int]:
        return "12"  # type: ignore[return-value]

    handles = [await wrong.options(retry=1).enqueue(number) for number in (1, 2)]
    await bench.idle()
    for handle in handles:
        with pytest.raises(offpath.JobDead, match="returned str, which is not a list"):
            await handle.result()


async def test_an_output_that_is_an_exception_fails_that_job_alone(bench: Bench) -> None:
    give = bench.giving(lambda numbers: [2, ValueError("odd")], doubled)
    good, bad = await give.enqueue(1), await give.enqueue(2)
    await bench.idle()
    assert await good.result() == 2
    record = await bad.status()
    assert (record.state, record.attempt) == (JobState.QUEUED, 2)
    assert record.failure is not None
    assert record.failure.type == "ValueError"
    bench.clock.advance(1)
    await bench.idle()
    assert await bad.result() == 4


async def test_an_output_of_the_wrong_type_fails_that_job_alone(bench: Bench) -> None:
    @bench.app.batch_task(size=2)
    async def mixed(numbers: list[int]) -> list[int]:
        return [1, "two"]  # type: ignore[list-item]

    good, bad = [await mixed.options(retry=1).enqueue(number) for number in (1, 2)]
    await bench.idle()
    assert await good.result() == 1
    with pytest.raises(offpath.JobDead, match="result of task 'mixed'"):
        await bad.result()


async def test_control_flow_is_each_jobs_own(bench: Bench) -> None:
    give = bench.giving(
        lambda _: [offpath.Abort("never"), offpath.Snooze(30), 3, RuntimeError("again")], size=4
    )
    handles = [await give.enqueue(number) for number in range(4)]
    await bench.idle()
    records = [await handle.status() for handle in handles]
    assert [record.state for record in records] == [
        JobState.DEAD,
        JobState.QUEUED,
        JobState.SUCCEEDED,
        JobState.QUEUED,
    ]
    assert [record.attempt for record in records] == [1, 1, 1, 2]
    assert records[0].reason == "aborted"


async def test_a28_028_a_classifier_is_asked_for_each_job(bench: Bench) -> None:
    asked: list[str] = []

    def classify(error: BaseException, info: offpath.FailureInfo) -> offpath.Snooze:
        asked.append(info.id)
        return offpath.Snooze(15)

    left = [fail, doubled]

    @bench.app.batch_task(size=2, on_failure=classify)
    async def double(numbers: list[int]) -> list[int]:
        return left.pop(0)(numbers)

    handles = [await double.enqueue(number) for number in (1, 2)]
    await bench.idle()
    assert sorted(asked) == sorted(handle.id for handle in handles)
    bench.clock.advance(15)
    await bench.idle()
    assert [await handle.result() for handle in handles] == [2, 4]
    assert {(await handle.status()).attempt for handle in handles} == {1}


async def test_a28_049_a_snooze_of_the_call_puts_off_each_job(bench: Bench) -> None:
    def later(_: list[int]) -> list[int]:
        raise offpath.Snooze(15)

    give = bench.giving(later, doubled)
    handles = [await give.enqueue(number) for number in (1, 2)]
    await bench.idle()
    bench.clock.advance(15)
    await bench.idle()
    assert [await handle.result() for handle in handles] == [2, 4]
    assert [(await handle.status()).attempt for handle in handles] == [1, 1]
    assert len(bench.calls) == 2


async def test_one_unreadable_job_does_not_spoil_its_call(bench: Bench) -> None:
    double = bench.doubling(size=2)
    broken = double.job(1)
    unsent(broken).new = replace(unsent(broken).new, input='{"item": "x"}')
    bad, good = await bench.app.enqueue(broken), await double.enqueue(2)
    await bench.idle()
    assert await good.result() == 4
    assert (await bad.status()).reason == "bad_input"
    assert bench.calls == [[2]]


async def test_a28_070_an_end_that_cannot_be_stored_runs_nothing_again(bench: Bench) -> None:
    double = bench.doubling(size=2)
    handles = [await double.enqueue(number) for number in (1, 2)]
    store = bench.app.store()
    settle = store.settle
    failures = [offpath.StoreUnavailable("away")]

    async def failing(settlements: Any) -> Any:
        if failures:
            raise failures.pop()
        return await settle(settlements)

    store.settle = failing  # type: ignore[method-assign]
    async with bench.app.worker():
        await bench.pass_time(5)
        assert [await handle.result() for handle in handles] == [2, 4]
    assert bench.calls == [[1, 2]]
    assert [phase for _, phase in bench.errors] == ["settle"]
