"""A lone plain job has a statement of its own; nobody can tell from its row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import NewJob, UniqueClaim
from offpath.runtime.clock import ManualClock
from tests.conformance.builders import new_job
from tools import walk

from .conftest import ALL_SET, Ask, Opened

_ROW = "select to_jsonb(j) - 'id' from offpath.job j where id::text = any (%s)"
_SET = replace(ALL_SET, input='{"a": 1}')


@pytest.mark.parametrize("job", [new_job(), _SET], ids=["defaults", "set"])
@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["the server's", "given"])
async def test_its_row_is_that_of_a_job_in_company(
    job: NewJob, clock: ManualClock | None, opened: Opened, ask: Ask
) -> None:
    store = await opened(clock=clock)
    sent = list[str]()
    store._before_statement = sent.append
    alone, *company = [replace(job, id=new_job().id) for _ in range(3)]
    await store.commit(Effects(jobs=(alone,)))
    await store.commit(Effects(jobs=tuple(company)))
    assert [name for name in sent if name.startswith("enqueue")] == ["enqueue_one", "enqueue"]
    one, other, _ = [row for (row,) in ask(_ROW, [each.id for each in (alone, *company)])]
    for row in (one, other):
        assert row["run_at"] == row["enqueued_at"]
        if clock is None:
            del row["run_at"], row["enqueued_at"]
    assert one == other


@pytest.mark.parametrize(
    "more",
    [
        {"delay": 1.0},
        {"run_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"deadline": datetime(2030, 1, 1, tzinfo=UTC)},
        {"deadline_in": 0.0},
        {"unique": UniqueClaim(key="k")},
        {"tags": ("a",)},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_one_that_asks_for_more_goes_by_the_statement_that_has_it(
    more: dict[str, object], opened: Opened
) -> None:
    store = await opened()
    sent = list[str]()
    store._before_statement = sent.append
    await store.commit(Effects(jobs=(replace(new_job(), **more),)))
    assert "enqueue" in sent
    assert "enqueue_one" not in sent


async def test_its_answer_has_the_time_and_its_repeat_makes_nothing(
    opened: Opened, ask: Ask
) -> None:
    clock = ManualClock()
    store = await opened(clock=clock)
    job = new_job()
    (first,) = await store.commit(Effects(jobs=(job,)))
    clock.advance(timedelta(seconds=9).total_seconds())
    (again,) = await store.commit(Effects(jobs=(job,)))
    assert (first.created, again.created) == (True, False)
    assert first.job_id == again.job_id == job.id
    assert first.run_at == again.run_at
    assert ask("select count(*) from offpath.job") == [(1,)]


async def test_one_whose_group_is_there_already_is_counted_in_it(opened: Opened) -> None:
    store = await opened()
    root, member = new_job(), new_job()
    await store.commit(Effects(jobs=(replace(member, group_id=root.id),)))
    await store.commit(Effects(jobs=(root,)))
    (group,) = await store.groups((root.id,))
    assert group.open == 2


async def test_a_lone_enqueue_passes_few_files(url: str) -> None:
    passed = await walk.of_enqueue(url)
    assert passed["store/postgres/lone.py"] >= 1
    # twenty-four; a machine that is slow to open the line of notices may see three more
    assert len(passed) <= 27
