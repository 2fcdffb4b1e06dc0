"""Many plain jobs that are alike have a statement of their own; nobody can tell from their rows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.errors import Conflict, StoreRejected
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.job import NewJob, UniqueClaim
from offpath.runtime.clock import ManualClock
from offpath.store.postgres.alike import FEWEST
from tests.conformance.builders import new_job

from .conftest import ALL_SET, Ask, Opened

_ROWS = "select to_jsonb(j) - 'id' from offpath.job j where id::text = any (%s) order by input"


def _many(like: NewJob, number: int = FEWEST) -> list[NewJob]:
    return [replace(like, id=new_job().id, input=f'{{"n": {n}}}') for n in range(100, 100 + number)]


def _sent(store: object) -> list[str]:
    sent = list[str]()
    store._before_statement = lambda name: sent.append(name) if "enqueue" in name else None  # type: ignore[attr-defined]
    return sent


@pytest.mark.parametrize("like", [new_job(), ALL_SET], ids=["defaults", "set"])
@pytest.mark.parametrize("group", [None, "0190c1f4-0000-7000-8000-000000000002"])
async def test_their_rows_are_those_of_jobs_that_differ(
    like: NewJob, group: str | None, opened: Opened, ask: Ask
) -> None:
    store = await opened(clock=ManualClock())
    sent = _sent(store)
    alike = _many(replace(like, group_id=group))
    # one of them has another priority, so all go by the statement for any jobs
    others = [replace(job, id=new_job().id) for job in alike]
    others.append(replace(others[0], id=new_job().id, priority=99))
    await store.commit(Effects(jobs=tuple(alike)))
    await store.commit(Effects(jobs=tuple(others)))
    assert sent == ["enqueue_alike", "enqueue"]
    rows = ask(_ROWS, [job.id for job in alike])
    assert rows == ask(_ROWS, [job.id for job in others[:-1]])
    assert [row["input"] for (row,) in rows] == [job.input for job in alike]


@pytest.mark.parametrize(
    "odd",
    [
        {"task": "another"},
        {"delay": 1.0},
        {"unique": UniqueClaim(key="k")},
        {"fair_key": "another"},
        {"headers": "{}"},
        {"input": "a\x1fb"},
    ],
    ids=lambda odd: next(iter(odd)),
)
async def test_one_that_differs_sends_all_by_the_statement_that_has_it(
    odd: dict[str, object], opened: Opened, ask: Ask
) -> None:
    store = await opened()
    sent = _sent(store)
    jobs = [*_many(new_job()), replace(new_job(), **odd)]
    answers = await store.commit(Effects(jobs=tuple(jobs)))
    assert sent == ["enqueue"]
    assert all(answer.created for answer in answers)
    assert ask("select count(*) from offpath.job") == [(len(jobs),)]


@pytest.mark.parametrize("text", ["\ud800", "\0"], ids=["half a letter", "a zero"])
async def test_a_text_that_no_column_takes_is_refused_and_nothing_is_written(
    text: str, opened: Opened, ask: Ask
) -> None:
    store = await opened()
    jobs = [*_many(new_job()), replace(new_job(), input=text)]
    with pytest.raises(StoreRejected):
        await store.commit(Effects(jobs=tuple(jobs)))
    assert ask("select count(*) from offpath.job") == [(0,)]


async def test_those_that_are_there_are_answered_as_repeats(opened: Opened, ask: Ask) -> None:
    clock = ManualClock()
    store = await opened(clock=clock)
    jobs = _many(new_job())
    first = await store.commit(Effects(jobs=tuple(jobs[::2])))
    clock.advance(timedelta(seconds=9).total_seconds())
    sent = _sent(store)
    both = await store.commit(Effects(jobs=(*jobs, jobs[1])))
    assert sent == ["enqueue_alike"]
    assert [answer.created for answer in both] == [n % 2 == 1 for n in range(len(jobs))] + [False]
    assert [answer.run_at for answer in both[:-1:2]] == [answer.run_at for answer in first]
    assert both[-1].run_at == both[1].run_at != both[0].run_at
    again = await store.commit(Effects(jobs=tuple(jobs)))
    assert not any(answer.created for answer in again)
    assert ask("select count(*) from offpath.job") == [(len(jobs),)]


async def test_nothing_stays_where_one_is_another_job(opened: Opened, ask: Ask) -> None:
    store = await opened()
    jobs = _many(new_job())
    await store.commit(Effects(jobs=(replace(jobs[3], fingerprint="other"),)))
    with pytest.raises(Conflict):
        await store.commit(Effects(jobs=tuple(jobs)))
    assert ask("select count(*) from offpath.job") == [(1,)]


async def test_a_root_whose_group_is_there_already_is_counted_in_it(opened: Opened) -> None:
    store = await opened()
    jobs = _many(new_job())
    root = jobs[5]
    await store.commit(Effects(jobs=(replace(new_job(), group_id=root.id),)))
    await store.commit(Effects(jobs=tuple(jobs)))
    (group,) = await store.groups((root.id,))
    assert group.open == 2


async def test_callers_at_once_share_it_and_a_root_among_them_is_counted(
    opened: Opened, ask: Ask
) -> None:
    store = await opened()
    jobs = _many(new_job(), 3 * FEWEST)
    root = jobs[-1]
    await store.commit(Effects(jobs=(replace(new_job(), group_id=root.id),)))
    sent = _sent(store)
    made = await asyncio.gather(*(store.commit(Effects(jobs=(job,))) for job in jobs))
    assert "enqueue_alike" in sent
    assert all(
        answer.created and answer.job_id == job.id
        for job, (answer,) in zip(jobs, made, strict=True)
    )
    assert ask("select count(*) from offpath.job") == [(len(jobs) + 1,)]
    (group,) = await store.groups((root.id,))
    assert group.open == 2


@pytest.mark.parametrize("watched", [FEWEST, 3], ids=["all", "some"])
async def test_a_gate_over_them_fires_when_they_have_ended(watched: int, opened: Opened) -> None:
    store = await opened()
    jobs = _many(new_job())
    gate = NewGate(id=new_job().id, on=tuple(job.id for job in jobs[:watched]), need=watched)
    held = replace(new_job(), gate=gate.id)
    await store.commit(Effects(jobs=tuple(jobs), gates=(gate,)))
    await store.commit(Effects(jobs=(held,)))
    cancelled = await store.cancel([job.id for job in jobs], keep=86_400.0)
    assert len(cancelled) >= watched
    (record,) = await store.get((held.id,))
    assert record.state != "blocked"
