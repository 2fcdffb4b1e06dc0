"""Results and texts of failures of any kind: stored equal, or refused alone."""

from __future__ import annotations

import pytest

from offpath.model.job import DeadReason, JobState, LeasedJob
from offpath.model.settlement import (
    Dead,
    Outcome,
    Retry,
    Settlement,
    SettleStatus,
    Succeeded,
)
from offpath.store.protocol import Store
from tests.conformance.builders import die, failure, record, settle, start, start_some

HOSTILE = {
    "nul": "a\0b",
    "escaped nul": '"a\\u0000b"',
    "not a character": "a\ufffeb\uffff",
    "lone surrogate": "a\ud800b",
    "escaped surrogate": '"\\ud800"',
    "control": "\x01\x1f\x7f\x85\u2028",
    "astral": "😀" * 100,
    "big": "x" * 1_000_000,
    "empty": "",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_result_is_stored_equal_or_refused_alone(store: Store, name: str) -> None:
    before, job, after = await start_some(store, 3)
    batch = [
        Settlement(job=before, outcome=Succeeded(result="1")),
        Settlement(job=job, outcome=Succeeded(result=HOSTILE[name])),
        Settlement(job=after, outcome=Succeeded(result="2")),
    ]

    answers = await store.settle(batch)

    assert [answers[0].status, answers[2].status] == [SettleStatus.APPLIED] * 2
    await _equal_or_refused(store, job, answers[1].status, "result", HOSTILE[name])


async def _equal_or_refused(
    store: Store, job: LeasedJob, status: SettleStatus, field: str, text: str
) -> None:
    stored = await record(store, job.id)
    if status is SettleStatus.APPLIED:
        value = stored.failures[0].message if field == "message" else getattr(stored, field)
        assert value == text
    else:
        assert status is SettleStatus.REFUSED
        assert stored.state is JobState.RUNNING
        await die(store, job)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["retry", "dead"])
async def test_a_failures_text_is_stored_equal_or_refused_alone(
    store: Store, name: str, kind: str
) -> None:
    job, good = await start_some(store, 2)
    what = failure(HOSTILE[name])
    outcome: Outcome = (
        Retry(delay=0, failure=what)
        if kind == "retry"
        else Dead(reason=DeadReason.EXHAUSTED, failure=what)
    )
    answers = await store.settle(
        [Settlement(job=job, outcome=outcome), Settlement(job=good, outcome=Succeeded())]
    )
    assert answers[1].status is SettleStatus.APPLIED
    await _equal_or_refused(store, job, answers[0].status, "message", HOSTILE[name])


@pytest.mark.parametrize(
    "name", ["escaped nul", "not a character", "escaped surrogate", "big", "empty"]
)
async def test_text_that_a_codec_makes_is_never_refused(store: Store, name: str) -> None:
    job = await start(store, input=HOSTILE[name])
    assert job.input == HOSTILE[name]
    answer = await settle(store, job, Succeeded(result=HOSTILE[name]))
    assert answer.status is SettleStatus.APPLIED
    stored = await record(store, job.id)
    assert (stored.input, stored.result) == (HOSTILE[name], HOSTILE[name])
