"""Unique keys of tasks whose names have what parts a name from its key."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath import App
from offpath.model.job import JobState, NewJob, UniqueClaim
from offpath.model.options import claim_of
from offpath.model.settlement import Settlement
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import enqueue, fresh_id, join, new_job, succeed, take
from tests.conformance.workflow_builders import waiting

_PARTS = st.text(alphabet=":%3A25ab", max_size=6)
PAIRS = [
    ("mail", "urgent:42"),
    ("mail:urgent", "42"),
    ("mail%3Aurgent", "42"),
    ("mail%253Aurgent", "42"),
    ("mail%", "k"),
    ("mail%:", "k"),
    ("mail", "%:k"),
    (":", ":"),
    ("plain", "k"),
]
"""Pairs of a task and a key, no two the same."""


def claimed(task: str, key: str) -> UniqueClaim:
    claim = claim_of(task, UniqueClaim(key=key))
    assert claim is not None
    return claim


@given(st.tuples(_PARTS, _PARTS), st.tuples(_PARTS, _PARTS))
def test_no_two_pairs_have_one_text(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (claimed(*one).key == claimed(*other).key) is (one == other)


async def test_tasks_do_not_share_a_key(store: Store) -> None:
    jobs = [new_job(task, unique=claimed(task, key)) for task, key in PAIRS]
    answers = await enqueue(store, *jobs)
    assert [answer.created for answer in answers] == [True] * len(PAIRS)


async def test_through_the_app(store: Store) -> None:
    app = App(store=store)

    @app.task(name="mail")
    async def mail(to: str) -> None: ...

    @app.task(name="mail:urgent")
    async def urgent(to: str) -> None: ...

    async with app:
        first = await mail.options(unique="urgent:42").enqueue("a")
        second = await urgent.options(unique="42").enqueue("a")
        again = await urgent.options(unique="42").enqueue("a")
    assert second.created
    assert (again.id, again.created) == (second.id, False)
    assert first.id != second.id


async def test_both_doors_make_the_same_text(store: Store, backend: Backend) -> None:
    if backend.name != "postgres":
        pytest.skip("there is no door in SQL")
    for task, key in PAIRS:
        job = new_job(task, unique=claimed(task, key))
        await enqueue(store, job)
        call = f"select offpath.enqueue('{task}', unique_key => '{key}')::text"
        assert backend.execute(call) == [(job.id,)]


def written_anew(backend: Backend) -> None:
    """Run what the schema step does with the keys that are stored."""
    (step,) = (each for each in backend.steps() if "keys_of_tasks" in each.name)
    updates = re.findall(r"^update offpath.*?;$", step.sql, re.DOTALL | re.MULTILINE)
    assert len(updates) == 2
    backend.run_script("\n".join(updates))


async def test_keys_that_are_stored_are_written_anew(store: Store, backend: Backend) -> None:
    """Held ones and others; those that are not task's own stay as they are."""
    if backend.name not in {"sqlite", "postgres"}:
        pytest.skip("there is no schema that a migration could change")
    old = [_older(task, key) for task, key in PAIRS if (task, key) != ("mail:urgent", "42")]
    foreign = NewJob(
        id=fresh_id(), task="a:b", input="{}", fingerprint="f", unique=UniqueClaim(key="other")
    )
    await enqueue(store, *old, foreign)
    await join(store)
    (ended,) = await take(store, tasks={"plain": 1})
    await succeed(store, ended)

    written_anew(backend)

    for job in old:
        assert job.unique is not None
        key = job.unique.key.removeprefix(f"{job.task}:")
        (record,) = await store.get([job.id])
        assert record.unique_key == claimed(job.task, key).key
        (answer,) = await enqueue(
            store, new_job(job.task, fingerprint=job.fingerprint, unique=claimed(job.task, key))
        )
        assert answer.created is (record.state is JobState.SUCCEEDED)
    (record,) = await store.get([foreign.id])
    assert record.unique_key == "other"


def _older(task: str, key: str) -> NewJob:
    """A job as the version before made it."""
    return new_job(task, unique=UniqueClaim(key=f"{task}:{key}"))


@pytest.mark.parametrize("state", ["queued", "running", "blocked", "succeeded"])
async def test_the_sql_door_sees_a_holder_in_any_state(
    store: Store, backend: Backend, state: str
) -> None:
    if backend.name != "postgres":
        pytest.skip("there is no door in SQL")
    await join(store)
    job = new_job("t", unique=unique_in_every_state())
    await enqueue(store, job)
    if state != "queued":
        (held,) = await take(store, tasks={"t": 1})
        if state == "succeeded":
            await succeed(store, held)
        elif state == "blocked":
            await store.settle([Settlement(job=held, outcome=waiting())])
    call = "select offpath.enqueue('t', unique_key => 'k')::text"
    assert backend.execute(call) == [(job.id,)]


def unique_in_every_state() -> UniqueClaim:
    return UniqueClaim(key="t:k", states=tuple(JobState), period=1e9)
