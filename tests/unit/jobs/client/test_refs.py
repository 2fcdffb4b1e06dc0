"""Refs: a name of the caller's own stands for a job's id wherever an id may stand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from offpath import App, InvalidArgument, JobState, Options, gate
from offpath.errors import IdConflict
from offpath.model.ref import ref_id


@pytest.fixture
async def app() -> AsyncIterator[App]:
    """An app on memory without a worker."""
    async with App(auto_start=False) as app:
        yield app


async def test_a_ref_stands_for_the_id_everywhere(app: App) -> None:
    @app.task
    async def bill(number: int) -> int:
        return number

    job = await bill.options(ref="invoice-7", tags=["paid"]).enqueue(7)
    assert UUID(job.id).version == 8
    record = await app.jobs.get("ref:invoice-7")
    assert (record.id, record.ref, record.tags) == (job.id, "invoice-7", ("paid", "ref:invoice-7"))
    assert [one.id for one in (await app.jobs.find(tags="ref:invoice-7")).items] == [job.id]
    behind = bill.job(8)
    await app.enqueue(gate(on=["ref:invoice-7"], queue=[behind]))
    await app.worker().run_until_idle()
    assert await bill.handle("ref:invoice-7").result() == 7
    assert (await app.jobs.get(behind.id)).state is JobState.SUCCEEDED


async def test_a_ref_is_unique(app: App) -> None:
    @app.task
    async def bill(number: int) -> None: ...

    sending = bill.options(ref="invoice-7")
    assert (await sending.enqueue(7)).id == (await sending.enqueue(7)).id
    with pytest.raises(IdConflict):
        await sending.enqueue(8)


async def test_an_id_that_is_a_ref_is_a_ref(app: App) -> None:
    @app.task
    async def bill(number: int) -> None: ...

    job = await app.enqueue(bill.options(id="ref:a").job(1))
    assert (await app.jobs.get(job.id)).ref == "a"


async def test_a_tag_alone_makes_no_ref(app: App) -> None:
    @app.task
    async def bill(number: int) -> None: ...

    job = await bill.options(tags=["ref:invoice-7"]).enqueue(7)
    assert (await app.jobs.get(job.id)).ref is None


def test_what_cannot_be_a_ref_is_refused() -> None:
    app = App()

    @app.task
    async def bill(number: int) -> None: ...

    with pytest.raises(InvalidArgument, match="ref must have 1 to 196 characters"):
        bill.options(ref="x" * 197)
    with pytest.raises(InvalidArgument, match="id or ref, not both"):
        bill.options(ref="a", id=app.new_id())
    with pytest.raises(InvalidArgument, match="ref must have 1 to 196 characters"):
        bill.handle("ref:")


def test_the_id_of_a_ref_is_the_same_in_each_release() -> None:
    assert ref_id("invoice-7") == "eebfe054-acf9-855e-a926-97625feed081"
    assert Options(ref="a").ref == "a"
