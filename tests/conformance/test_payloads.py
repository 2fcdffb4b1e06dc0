"""Text: what is stored comes back equal, and what cannot be stored is refused before a write."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from offpath.errors import InvalidArgument, StoreRejected
from offpath.model.job import JobFilter, JobState
from offpath.model.settlement import Snoozed, Succeeded
from offpath.store.protocol import Store
from tests.conformance.builders import (
    TASK,
    add,
    end,
    enqueue,
    exists,
    join,
    living,
    new_job,
    record,
    start,
    take,
    unique,
    worker_info,
)

NAMES = {
    "quotes": 'it\'s "quoted" `so`',
    "statement": "x'; drop table job; --",
    "percent": "100%s %(name)s %% %",
    "backslash": "C:\\new\\table \\' \\u0041",
    "braces": "{}{0} ${x} :name ?1 $1 @p",
    "json": '{"a":["b"]}',
    "null": "null",
    "comma": "a,b;c|d",
    "astral": "日本語 😀 é é",
    "long": "n" * 300,
    "escape": "\x1b[31mred",
    "newline": "a\nb\r\nc\td",
    "edge blanks": "  both  ",
}


@pytest.mark.parametrize("kind", NAMES)
async def test_a_name_is_only_a_name(store: Store, kind: str) -> None:
    """Cases N7: everywhere a caller's text goes, and every way it is looked for."""
    name = NAMES[kind]
    await join(store, name)
    kept = await add(store, "kept")
    job = new_job(
        name,
        queue=name,
        input=msgspec.json.encode({"x": name}).decode(),
        options=msgspec.json.encode(name).decode(),
        fingerprint=name,
        tags=(name, "other"),
        unique=unique(name),
    )
    await enqueue(store, job)

    (leased,) = await take(store, name, tasks={name: 1}, queues=(name,))

    assert (leased.id, leased.task, leased.queue, leased.worker) == (job.id, name, name, name)
    assert (leased.input, leased.options) == (job.input, job.options)
    stored = await record(store, job.id)
    assert (stored.fingerprint, stored.unique_key) == (name, f"{TASK}:{name}")
    assert sorted(stored.tags) == sorted((name, "other"))
    for where in (
        JobFilter(tasks=(name,)),
        JobFilter(queues=(name, "nobody")),
        JobFilter(tags=(name,)),
    ):
        assert [one.id for one in (await store.find(where)).items] == [job.id]
        assert [one.count for one in await store.count(where)] == [1]
    (again,) = await enqueue(store, msgspec.structs.replace(job, id=new_job().id))
    assert again.job_id == job.id
    await end(store, leased, Snoozed(reason=name))
    (found,) = (await store.find(JobFilter(reasons=(name,)))).items
    assert (found.id, found.reason) == (job.id, name)
    assert {(one.queue, one.task) for one in await store.backlog()} >= {(name, name)}
    assert await exists(store, kept)


@pytest.mark.parametrize("kind", NAMES)
async def test_a_worker_may_be_called_anything(store: Store, kind: str) -> None:
    name = NAMES[kind]
    info = worker_info(name, host=name, version=name, tasks=(name,), queues=(name,))
    await store.register(info, lease_seconds=30)
    assert [one.info for one in await store.workers()] == [info]
    assert (await store.extend(info, lease_seconds=30, held=[])).alive
    await store.deregister(name)
    assert await living(store) == []


@pytest.mark.parametrize("kind", NAMES)
async def test_a_claim_may_be_called_anything(store: Store, kind: str) -> None:
    name = NAMES[kind]
    assert await store.claim(name, name)
    assert not await store.claim(name, "other")
    assert await store.claim(name, name)
    assert await store.claim("other", "other")


async def test_wild_cards_are_letters(store: Store) -> None:
    await enqueue(store, new_job("abc"), new_job("a%"), new_job("a_c"), new_job("ABC"))
    for name in ("a%", "a_c", "ABC"):
        (found,) = (await store.find(JobFilter(tasks=(name,)))).items
        assert found.task == name


UNSTORABLE = {"nul": "a\0b", "lone surrogate": "a\ud800b"}
FIELDS: dict[str, Any] = {
    "task": lambda text: new_job(task=text),
    "queue": lambda text: new_job(queue=text),
    "input": lambda text: new_job(input=text),
    "options": lambda text: new_job(options=text),
    "fingerprint": lambda text: new_job(fingerprint=text),
    "tag": lambda text: new_job(tags=("fine", text)),
    "unique key": lambda text: new_job(unique=unique(text)),
}


@pytest.mark.parametrize("kind", UNSTORABLE)
@pytest.mark.parametrize("field", FIELDS)
async def test_an_unstorable_text_is_kept_equal_or_refused_whole(
    store: Store, field: str, kind: str
) -> None:
    """The app refuses such names; the store must not corrupt what comes past it."""
    good = new_job("good")
    bad = FIELDS[field](UNSTORABLE[kind])
    try:
        await enqueue(store, good, bad)
    except (StoreRejected, InvalidArgument):
        assert not await exists(store, good.id)
        await enqueue(store, good)
    else:
        stored = await record(store, bad.id)
        values = {
            "task": stored.task,
            "queue": stored.queue,
            "input": stored.input,
            "options": stored.options,
            "fingerprint": stored.fingerprint,
            "tag": next((tag for tag in stored.tags if tag != "fine"), None),
            "unique key": (stored.unique_key or "").removeprefix(f"{TASK}:"),
        }
        assert values[field] == UNSTORABLE[kind]
    assert await exists(store, good.id)


async def test_a_refused_neighbour_does_not_fail_a_concurrent_commit(store: Store) -> None:
    good = [new_job() for _ in range(10)]
    bad = [new_job(input="a\ud800b"), new_job(input="a\0b")]
    answers = await asyncio.gather(
        *(enqueue(store, job) for pair in zip(good, bad * 5, strict=True) for job in pair),
        return_exceptions=True,
    )
    assert len(answers) == 20
    assert [answer for answer in answers[::2] if isinstance(answer, BaseException)] == []
    assert len(await store.get([job.id for job in good])) == 10


@pytest.mark.parametrize("size", [65_536, 1_048_576, 4_194_304])
async def test_big_inputs_and_results(store: Store, size: int) -> None:
    text = '"' + "é" * (size // 2) + '"'
    job = await start(store, input=text)
    assert job.input == text
    await end(store, job, Succeeded(result=text))
    stored = await record(store, job.id)
    assert (stored.input, stored.result) == (text, text)


async def test_five_thousand_jobs_with_long_names_in_one_call(store: Store) -> None:
    """Cases I2: nothing that travels with a commit has a limit of its own."""
    name = "n" * 200
    answers = await enqueue(store, *(new_job(name, queue=name) for _ in range(5_000)))
    assert sum(answer.created for answer in answers) == 5_000
    (counted,) = await store.count(JobFilter())
    assert (counted.state, counted.count) == (JobState.QUEUED, 5_000)


async def test_progress_comes_back_equal(store: Store) -> None:
    job = await start(store)
    for text in ('{"note":"it\'s 100%\\u0000"}', '"' + "x" * 100_000 + '"', "{}"):
        await store.progress(job, text)
        assert (await record(store, job.id)).progress == text


async def test_inputs_named_like_our_own_words(store: Store) -> None:
    """Cases I4."""
    text = '{"task":1,"id":2,"self":3,"ctx":4,"args":5,"kwargs":6,"state":7,"__class__":8}'
    job = await start(store, input=text)
    assert job.input == text
