"""Group commit: company shares a commit, and nobody pays for another's fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from offpath.errors import IdConflict, StoreRejected, StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, NewJob
from offpath.store.postgres.group_commit import MOST_JOBS, Joiner
from tests.conformance.builders import new_job


class Recorder:
    """Writes nothing, and can be held; a job of the task "bad" is a conflict."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self.joiner = Joiner(self.write, self.write_each)

    async def write(self, effects: Effects) -> list[Enqueued]:
        answers = await self.write_each(effects.jobs)
        if None in answers:
            raise IdConflict("taken")
        return [answer for answer in answers if answer is not None]

    async def write_each(self, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
        self.commits.append(len(jobs))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if any(job.task == "unstorable" for job in jobs):
            raise StoreRejected("no")
        return [
            None if job.task == "bad" else Enqueued(id=job.id, job_id=job.id, created=True)
            for job in jobs
        ]


def one(task: str = "good") -> Effects:
    return Effects(jobs=(new_job(task),))


def two(task: str = "good") -> Effects:
    return Effects(jobs=(new_job(), new_job(task)))


async def started(joiner: Joiner, *many: Effects) -> list[asyncio.Task[list[Enqueued]]]:
    """The calls, each waiting; the first is being written."""
    calls = [asyncio.create_task(joiner.commit(effects)) for effects in many]
    for _ in range(3):
        await asyncio.sleep(0)
    return calls


async def test_who_comes_while_one_is_written_shares_the_next() -> None:
    recorder = Recorder()
    joiner = recorder.joiner
    given = [one() for _ in range(6)]
    first = await started(joiner, given[0])
    rest = await started(joiner, *given[1:])
    recorder.gate.set()
    answers = await asyncio.gather(*first, *rest)
    assert recorder.commits == [1, 5]
    assert [answer[0].id for answer in answers] == [effects.jobs[0].id for effects in given]


@pytest.mark.parametrize("make", [one, two])
@pytest.mark.parametrize(("task", "kind"), [("bad", IdConflict), ("unstorable", StoreRejected)])
async def test_a_fault_is_its_callers_own(
    make: Callable[..., Effects], task: str, kind: type[Exception]
) -> None:
    recorder = Recorder()
    calls = await started(recorder.joiner, make(), make(), make(task), make())
    recorder.gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, list, kind, list]


async def test_a_member_of_a_group_is_not_written_as_if_it_were_alone() -> None:
    recorder = Recorder()
    recorder.error = StoreUnavailable("write_each must not be used")
    recorder.gate.set()
    member = Effects(jobs=(new_job(group_id="another"),))
    wrote: list[Effects] = []

    async def write(effects: Effects) -> list[Enqueued]:
        wrote.append(effects)
        return [Enqueued(id=job.id, job_id=job.id, created=True) for job in effects.jobs]

    assert await Joiner(write, recorder.write_each).commit(member)
    assert wrote == [member]


async def test_an_outage_is_everybodys() -> None:
    recorder = Recorder()
    joiner = recorder.joiner
    calls = await started(joiner, one(), one(), one())
    recorder.error = StoreUnavailable("gone")
    recorder.gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    recorder.error = None
    assert await joiner.commit(one())


async def test_a_shared_commit_is_bounded_and_a_big_call_goes_alone() -> None:
    recorder = Recorder()
    joiner = recorder.joiner
    big = Effects(jobs=tuple(new_job() for _ in range(MOST_JOBS + 1)))
    calls = await started(joiner, one(), big, one(), one())
    recorder.gate.set()
    await asyncio.gather(*calls)
    assert recorder.commits == [1, MOST_JOBS + 1, 2]


async def test_a_caller_that_left_is_not_written_and_does_not_disturb() -> None:
    recorder = Recorder()
    joiner = recorder.joiner
    (first,) = await started(joiner, one())
    left, last = await started(joiner, one(), one())
    left.cancel()
    await asyncio.sleep(0)
    recorder.gate.set()
    await asyncio.gather(first, last)
    assert recorder.commits == [1, 1]
    with pytest.raises(asyncio.CancelledError):
        await left


async def test_closing_waits_for_what_was_asked() -> None:
    recorder = Recorder()
    joiner = recorder.joiner
    (call,) = await started(joiner, one())
    closing = asyncio.create_task(joiner.close())
    await asyncio.sleep(0)
    assert not closing.done()
    recorder.gate.set()
    await closing
    assert await call
