"""Extensions around what is written: every way into the store, with headers that are added."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.events import Event, InboxContext, InboxMessage, Outbox
from offpath.extensions import (
    Applying,
    Committing,
    Extension,
    Routing,
    Running,
)
from offpath.model.headers import decoded_headers
from offpath.testing import drain, swap_to_memory
from tests.sqlite_files import migrated_url


class Stamps(Extension):
    """Adds a header to whatever is written, and notes what was."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.causes: list[object] = []
        self.within: list[bool] = []

    @contextmanager
    def sending(self, new: Committing, /) -> Iterator[None]:
        self.causes.append(new.cause)
        self.within.append(new.within)
        for one in new.entries:
            one.headers["stamp"] = f"{one.kind} {one.name}"
            self.notes.append(f"{one.kind} {one.name} {one.place} {one.size}")
        yield
        self.notes.append("written")


@pytest.fixture
def stamps() -> Stamps:
    return Stamps()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated_url(tmp_path / "jobs.db")


def made(url: str, *extensions: Extension, **settings: Any) -> offpath.App:
    return offpath.App(url, extensions=extensions, auto_start=False, **settings)


async def stamp_of(app: offpath.App, job: str) -> str | None:
    return decoded_headers((await app.jobs.get(job)).headers).get("stamp")


async def test_an_enqueue_is_surrounded_and_its_jobs_get_the_headers(stamps: Stamps) -> None:
    async with made("memory://", stamps) as app:

        @app.task
        async def work(number: int) -> None: ...

        one = await work.enqueue(1)
        two, three = await app.enqueue([work.job(2), work.options(queue="q").job(3)])
        assert [await stamp_of(app, one_.id) for one_ in (one, two, three)] == ["job work"] * 3
    size = len(b'{"number":1}')
    first, rest = f"job work default {size}", f"job work q {size}"
    assert stamps.notes == [first, "written", first, rest, "written"]
    assert stamps.causes == [None, None]


async def test_what_the_call_names_counts_more_and_what_is_carried_counts_less() -> None:
    class Names(Extension):
        @contextmanager
        def sending(self, new: Committing, /) -> Iterator[None]:
            for one in new.entries:
                one.headers |= {"a": "extension", "b": "extension"}
            yield

    app = made("memory://", Names(), carry_headers=["b", "c"])
    async with app:

        @app.task
        async def child() -> None: ...

        @app.task
        async def parent(ctx: offpath.Context) -> None:
            ctx.enqueue(child.options(headers={"a": "call"}).job())
            await child.options(headers={"a": "call"}).enqueue()

        await parent.options(headers={"b": "carried", "c": "carried"}).enqueue()
        await drain(app)
        found = [one async for one in app.jobs.each(task="child")]
    wanted = {"a": "call", "b": "extension", "c": "carried"}
    assert [dict(decoded_headers(one.headers)) for one in found] == [wanted, wanted]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_transaction_of_the_callers_is_surrounded_in_its_thread(
    url: str, stamps: Stamps, blocking: bool
) -> None:
    app = made(url, stamps)

    @app.task
    def work() -> None: ...

    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path, isolation_level=None) as connection, app.blocking:
        connection.execute("begin immediate")
        jobs = app.blocking.bound(connection) if blocking else app.blocking
        if blocking:
            handle = jobs.enqueue(work.job())
        else:
            handle = app.blocking.enqueue(work.job(), within=connection)
        connection.execute("commit")
        found = app.blocking.jobs.get(handle.id)
    connection.close()
    assert decoded_headers(found.headers)["stamp"] == "job work"
    assert stamps.within == [True]


async def test_messages_and_events_of_every_verb_are_surrounded(stamps: Stamps) -> None:
    seen: dict[str, dict[str, str]] = {}
    async with made("memory://", stamps) as app:

        @app.outbox("default")
        async def tell(event: Event) -> None:
            seen[event.topic] = dict(event.headers)

        await app.publish("published", headers={"own": "1"})
        await app.log.append("shop", "appended", "s")
        await app.accept("shop", "k", {})
        async with app.batch() as batch:
            batch.publish("batched")
            batch.append("shop", "also", "s")
        await app.relay("default").run_once()
        (inbox,) = [one for one in (await app.messages.find()).items if one.box == "in"]
    assert seen == {
        "published": {"own": "1", "stamp": "message published"},
        "batched": {"stamp": "message batched"},
    }
    assert "message " in inbox.headers
    kinds = [note.partition(" ")[0] for note in stamps.notes if note != "written"]
    assert kinds == ["message", "event", "message", "message", "event"]


async def test_what_a_handler_leaves_to_its_end_names_the_handlers_call(stamps: Stamps) -> None:
    runs: list[Running] = []

    class Also(Extension):
        def running(self, run: Running, /) -> Any:
            runs.append(run)
            return super().running(run)

    async with made("memory://", stamps, Also()) as app:

        @app.task
        async def child() -> None: ...

        @app.task
        async def parent(ctx: offpath.Context) -> None:
            ctx.enqueue(child.job())
            ctx.publish("told")

        await parent.enqueue()
        await drain(app)
        (job,) = [one async for one in app.jobs.each(task="child")]
        assert await stamp_of(app, job.id) == "job child"
    assert stamps.causes == [None, runs[0]]


async def test_a_job_that_begins_at_once_is_surrounded_too(stamps: Stamps) -> None:
    async with made("memory://", stamps, carry_headers=["tenant"]) as app:

        @app.task
        async def child() -> None: ...

        @app.task
        async def parent() -> None:
            await app.enqueue(child.job(), inline=True)

        await parent.options(headers={"tenant": "acme"}).enqueue()
        await app.worker(concurrency=1).run_until_idle()
        (job,) = [one async for one in app.jobs.each(task="child")]
    assert dict(decoded_headers(job.headers)) == {"stamp": "job child", "tenant": "acme"}


@pytest.mark.parametrize("threaded", [False, True])
async def test_an_inbox_handler_is_surrounded_where_it_runs(stamps: Stamps, threaded: bool) -> None:
    applied: list[Applying] = []

    class Applies(Extension):
        @contextmanager
        def applying(self, message: Applying, /) -> Iterator[None]:
            applied.append(message)
            yield

    async with made("memory://", stamps, Applies()) as app:

        @app.task
        async def child() -> None: ...

        async def take(message: InboxMessage, ctx: InboxContext) -> None:
            ctx.enqueue(child.job())

        def take_in_thread(message: InboxMessage, ctx: InboxContext) -> None:
            ctx.enqueue(child.job())

        app.inbox("shop")(take_in_thread if threaded else take)
        await app.accept("shop", "1", {}, headers={"own": "1"})
        await app.drain("shop").run_once()
        (job,) = [one async for one in app.jobs.each(task="child")]
        assert await stamp_of(app, job.id) == "job child"
    (one,) = applied
    assert (one.source, one.key, one.attempt, one.headers["own"]) == ("shop", "1", 1, "1")
    assert stamps.causes[-1] is one


async def test_a_route_is_surrounded_where_something_is_delivered(stamps: Stamps) -> None:
    routed: list[str] = []

    class Routes(Extension):
        @contextmanager
        def routing(self, event: Routing, /) -> Iterator[None]:
            try:
                yield
            except BaseException as error:
                routed.append(f"{event.route} raised {type(error).__name__}")
                raise
            routed.append(f"{event.route} {event.headers['stamp']}")

    async def refuse(event: object) -> None:
        raise ValueError("no")

    async with made("memory://", stamps, Routes()) as app:
        router = app.router("r", domain="shop", start="beginning")
        router.route(name="box", type="made", deliver=Outbox("out"), enabled=True, dry_run=False)
        router.route(name="out", type="told", deliver=refuse, enabled=True, dry_run=False)
        for kind in ("made", "told", "passed"):
            await app.log.append("shop", kind, "s")
        for one in (app.routers, router):
            await one.open_gate()
        await router.run_once()
        (message,) = (await app.messages.find()).items
    assert routed == ["box event made", "out raised ValueError"]
    assert "message made" in message.headers


def _raise(_: object) -> Any:
    raise RuntimeError("broken")


def _nothing(_: object) -> Any:
    return None


@pytest.mark.parametrize("fault", [_raise, _nothing])
async def test_a_fault_costs_no_job(fault: Callable[[object], Any]) -> None:
    class Broken(Extension):
        def sending(self, new: Committing, /) -> Any:
            return fault(new)

    told: list[str] = []
    stamps = Stamps()
    app = made("memory://", Broken(), stamps, on_error=lambda _, phase: told.append(phase))
    async with app:

        @app.task
        async def work() -> None: ...

        handle = await work.enqueue()
        assert await stamp_of(app, handle.id) == "job work"
    assert told == ["extension"]


async def test_a_header_that_cannot_be_one_is_left_out_and_told() -> None:
    class Odd(Extension):
        @contextmanager
        def sending(self, new: Committing, /) -> Iterator[None]:
            for one in new.entries:
                one.headers |= {"Bad Name": "1", "nul": "\0", "good": "1"}
                one.headers["number"] = 1  # type: ignore[assignment]
            yield

    told: list[str] = []
    app = made("memory://", Odd(), on_error=lambda error, _: told.append(str(error)))
    async with app:

        @app.task
        async def work() -> None: ...

        handle = await work.enqueue()
        found = await app.jobs.get(handle.id)
    assert dict(decoded_headers(found.headers)) == {"good": "1"}
    assert [text.split("'")[1] for text in told] == ["Bad Name", "nul", "number"]


async def test_a_commit_that_fails_is_seen_by_the_context() -> None:
    seen: list[str] = []

    class Watches(Extension):
        @contextmanager
        def sending(self, new: Committing, /) -> Iterator[None]:
            try:
                yield
            except offpath.errors.UniqueConflict as error:
                seen.append(type(error).__name__)
                raise

    async with made("memory://", Watches()) as app:

        @app.task(unique=offpath.Unique(key="one", policy="refuse"))
        async def work() -> None: ...

        await work.enqueue()
        with pytest.raises(offpath.errors.UniqueConflict):
            await work.enqueue()
    assert seen == ["UniqueConflict"]


async def test_a_swapped_store_is_surrounded_as_well(url: str, stamps: Stamps) -> None:
    app = made(url, stamps)

    @app.task
    async def work() -> None: ...

    async with swap_to_memory(app):
        handle = await work.enqueue()
        assert await stamp_of(app, handle.id) == "job work"
