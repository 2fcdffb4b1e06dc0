"""A batch of new jobs is few statements that say once what all have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.job import NewJob, UniqueClaim
from offpath.model.limit import LimitSpec
from offpath.store.sql import Query
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.job_rows import COLUMNS, inserts, row_of
from tests.conformance.builders import add, enqueue, new_job, record, unique

NOW = 1_700_000_000_000_000


def statements(*jobs: NewJob) -> list[Query]:
    return inserts([row_of(job, NOW, {}, ()) for job in jobs], NOW)


def sent(query: Query) -> list[list[object]]:
    rows: list[list[object]] = json.loads(query.params["batch"])
    return rows


def test_what_all_have_in_common_is_bound_once() -> None:
    limit = LimitSpec(key="api", max_running=1)
    jobs = [new_job(input=str(n), fingerprint=str(n), limit=limit, tags=("t",)) for n in range(3)]
    [query] = statements(*jobs)
    assert sent(query) == [[job.id, job.input, job.fingerprint] for job in jobs]
    assert (query.params["limit_key"], query.params["tags"]) == ("api", '["t"]')
    alike = {name for n, name in enumerate(COLUMNS) if query.params["common"] >> n & 1}
    assert alike == {*COLUMNS} - {"id", "input", "fingerprint"}


def test_rows_go_in_as_they_will_be_leased() -> None:
    later, first, second = new_job(delay=1.0), new_job(), new_job()
    [query] = statements(later, second, first)
    assert [row[0] for row in sent(query)] == [first.id, second.id, later.id]


@pytest.mark.parametrize("doubled", [unique("k"), None])
def test_where_it_matters_who_is_first_the_order_stays(doubled: UniqueClaim | None) -> None:
    first, second = new_job(gate="g", unique=doubled), new_job(unique=doubled)
    jobs = [second, first] if doubled else [second, first, second]
    [query] = statements(*jobs)
    assert [row[0] for row in sent(query)] == [job.id for job in jobs]


def test_jobs_at_gates_go_apart() -> None:
    held, free = new_job(gate="g"), [new_job() for _ in range(2)]
    first, second = statements(held, *free)
    assert [row[0] for row in sent(first)] == [job.id for job in free]
    assert [row[0] for row in sent(second)] == [held.id]
    assert (first.params["gate"], second.params["gate"]) == (None, "g")


@pytest.mark.parametrize("where", ["queue", "input"])
def test_a_nul_is_refused_wherever_it_is_sent(where: str) -> None:
    with pytest.raises(StoreRejected, match="NUL"):
        statements(new_job(**{where: "a\0b"}), new_job(**{where: "a\0b"}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("task", ("a", "b")),
        ("queue", ("a", "b")),
        ("priority", (1, 2)),
        ("input", ("1", "2")),
        ("fingerprint", ("1", "2")),
        ("fair_key", ("a", None)),
        ("parent", (None, "p")),
        ("group_id", ("g", None)),
        ("dependents", (("d",), ())),
        ("tags", ((), ("t",))),
        ("options", ("{}", '{"x":1}')),
        ("limit", (None, LimitSpec(key="k", max_running=1))),
        ("deadline_in", (None, 60.0)),
        ("delay", (0.0, 60.0)),
    ],
)
async def test_what_differs_is_each_jobs_own(
    store: SqliteStore, name: str, values: tuple[Any, ...]
) -> None:
    """Written together with another, a job is kept as if written alone."""
    alone = [await add(store, **{name: value}) for value in values]
    together = [new_job(**{name: value}) for value in values]
    await enqueue(store, *together)
    for job, other in zip(together, alone, strict=True):
        kept = replace(await record(store, job.id), id=other)
        if job.group_id is None:
            kept = replace(kept, group_id=other)
        assert kept == await record(store, other)
