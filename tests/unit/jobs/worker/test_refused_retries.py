"""Retries that the store does not take: the job that has attempts left is not dead of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offpath.errors import StoreBusy, StoreError, StoreRejected
from offpath.model.job import JobState
from offpath.model.settlement import Retry, Settled, Settlement, SettleStatus
from tests.unit.jobs.worker.rig import Rig, breathe


def refusing(rig: Rig, refused: Callable[[Settlement], bool], error: StoreError) -> list[int]:
    """Have the store refuse some settlements, and apply the others; how many came in each call."""
    real, calls = rig.memory.settle, list[int]()

    async def settle(settlements: Sequence[Settlement]) -> list[Settled]:
        calls.append(len(settlements))
        good = await real([one for one in settlements if not refused(one)])
        answers = {one.id: one for one in good}
        return [
            answers.get(one.job.id)
            or Settled(id=one.job.id, status=SettleStatus.REFUSED, error=error)
            for one in settlements
        ]

    rig.memory.settle = settle  # type: ignore[method-assign]
    return calls


async def fails(n: int) -> None:
    raise ValueError(f"attempt of {n}")


async def test_a_refused_retry_is_a_retry_without_its_description(rig: Rig) -> None:
    rig.task(fails)
    jobs = [await rig.enqueue("fails", f'{{"n":{n}}}') for n in range(3)]

    def bad(one: Settlement) -> bool:
        outcome = one.outcome
        return isinstance(outcome, Retry) and "attempt of 1" in outcome.failure.message

    refusing(rig, bad, StoreRejected("the text cannot be stored"))
    await rig.started()
    await breathe()
    for n, job in enumerate(jobs):
        record = await rig.record(job)
        assert (record.state, record.attempt) == (JobState.QUEUED, 2)
        assert record.failure is not None
        told = record.failure.message
        assert ("refused the description" in told) is (n == 1)


async def test_what_a_busy_store_put_off_is_settled_as_it_was(rig: Rig) -> None:
    rig.task(fails)
    job = await rig.enqueue("fails", '{"n":1}')
    left = [2]

    def at_first(one: Settlement) -> bool:
        left[0] -= 1
        return left[0] >= 0

    refusing(rig, at_first, StoreBusy("a unique key changes hands too fast"))
    await rig.started()
    await breathe()
    record = await rig.record(job)
    assert (record.state, record.attempt) == (JobState.QUEUED, 2)
    assert record.failure is not None
    assert "attempt of 1" in record.failure.message
