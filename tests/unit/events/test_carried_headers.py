"""Headers that pass on: from a handler to what it makes, through the inbox, out with webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.events import Event, InboxContext, InboxMessage, Outbox, RoutedEvent
from offpath.model.effects import Effects
from offpath.model.headers import decoded_headers
from offpath.model.new import Box, NewMessage
from offpath.runtime.baggage import HeaderRules
from offpath.runtime.ids import new_id
from tests.servers import migrate
from tests.sqlite_files import migrated_url
from tests.unit.events.webhook.rig import Rig

GIVEN = {"tenant": "acme", "request": "r-1"}
TENANT = {"tenant": "acme"}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "events.db")


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    made = offpath.App(url, auto_start=False, migrate=True, carry_headers=["tenant"])
    async with made as app:
        yield app


async def headers_of(app: offpath.App, task: str) -> list[dict[str, str]]:
    """The headers of the jobs of a task, oldest first."""
    found = app.jobs.each(task=task, newest=False)
    return [dict(decoded_headers(one.headers)) async for one in found]


async def test_what_a_handler_enqueues_has_them(app: offpath.App) -> None:
    @app.task
    async def child(how: str) -> None: ...

    @app.task
    async def parent(ctx: offpath.Context) -> Any:
        ctx.enqueue(child.job("noted"))
        ctx.enqueue(child.options(headers={"tenant": "own", "more": "m"}).job("own"))
        await child.enqueue("sent")
        return ctx.queue(child.job("planned")).next(child.job("next"))

    await parent.options(headers=GIVEN).enqueue()
    await app.worker().run_until_idle()
    seen = await headers_of(app, "child")
    assert seen.count(TENANT) == 4
    assert {"tenant": "own", "more": "m"} in seen


async def test_a_job_behind_a_gate_keeps_its_own(app: offpath.App) -> None:
    seen: list[dict[str, str]] = []

    @app.task
    async def work(ctx: offpath.Context) -> None:
        seen.append(dict(ctx.headers))

    first, held = work.job(), work.options(headers=GIVEN).job()
    await app.enqueue([first, offpath.gate(on=[first], queue=[held])])
    await app.worker().run_until_idle()
    assert seen == [{}, GIVEN]


async def test_a_job_of_a_schedule_has_those_of_its_definition_whoever_triggers_it(
    app: offpath.App,
) -> None:
    @app.task
    async def tick() -> None: ...

    @app.task
    async def trigger() -> None:
        await app.schedules.trigger("plain")
        await app.schedules.trigger("own")

    await app.schedules.create("plain", tick.job(), every=3600)
    await app.schedules.create("own", tick.options(headers={"request": "s"}).job(), every=3600)
    await trigger.options(headers=GIVEN).enqueue()
    await app.worker().run_until_idle()
    assert await headers_of(app, "tick") == [{}, {"request": "s"}]


async def test_a_thread_passes_them_on_too(app: offpath.App) -> None:
    @app.task
    async def child() -> None: ...

    @app.task
    def parent(ctx: offpath.Context) -> None:
        ctx.blocking(child.enqueue())
        ctx.enqueue(child.job())

    await parent.options(headers=GIVEN).enqueue()
    await app.worker().run_until_idle()
    assert await headers_of(app, "child") == [TENANT, TENANT]


async def test_one_job_does_not_pass_on_those_of_another(app: offpath.App) -> None:
    @app.task
    async def child() -> None: ...

    @app.task
    async def parent() -> None:
        await child.enqueue()

    await parent.options(headers=GIVEN).enqueue()
    await parent.enqueue()
    await app.worker(concurrency=1).run_until_idle()
    assert sorted(await headers_of(app, "child"), key=len) == [{}, TENANT]


async def test_without_names_nothing_passes_on(url: str) -> None:
    async with offpath.App(url, auto_start=False, migrate=True) as app:

        @app.task
        async def child() -> None: ...

        @app.task
        async def parent(ctx: offpath.Context) -> None:
            ctx.enqueue(child.job())
            await child.enqueue()

        await parent.options(headers=GIVEN).enqueue()
        await app.worker().run_until_idle()
        assert await headers_of(app, "child") == [{}, {}]


async def test_events_have_them_and_keep_their_own(app: offpath.App) -> None:
    seen: dict[str, dict[str, str]] = {}

    @app.outbox("default")
    async def tell(event: Event) -> None:
        seen[event.topic] = dict(event.headers)

    @app.task
    async def parent(ctx: offpath.Context) -> None:
        ctx.publish("plain")
        ctx.publish("own", headers={"tenant": "own"})
        await app.publish("sent")

    await parent.options(headers=GIVEN).enqueue()
    await app.worker().run_until_idle()
    await app.relay("default").run_once()
    assert seen == {"plain": TENANT, "own": {"tenant": "own"}, "sent": TENANT}


@pytest.mark.parametrize("threaded", [False, True])
async def test_the_inbox_passes_them_on(app: offpath.App, threaded: bool) -> None:
    @app.task
    async def child() -> None: ...

    async def take(message: InboxMessage, ctx: InboxContext) -> None:
        ctx.enqueue(child.job())
        await child.enqueue()

    def take_in_thread(message: InboxMessage, ctx: InboxContext) -> None:
        ctx.enqueue([child.job(), child.job()])

    app.inbox("shop")(take_in_thread if threaded else take)
    await app.accept("shop", "1", {}, headers=GIVEN)
    await app.accept("shop", "2", {})
    await app.drain("shop").run_once()
    seen = await headers_of(app, "child")
    assert sorted(seen, key=len) == [{}, {}, TENANT, TENANT]


async def test_events_of_the_log_have_them_and_routes_pass_them_on(app: offpath.App) -> None:
    seen: dict[str, dict[str, str]] = {}

    @app.task
    async def child(event: RoutedEvent) -> None:
        seen[f"task {event.type}"] = dict(event.headers)

    async def tell(event: RoutedEvent) -> None:
        seen[event.type] = dict(event.headers)

    router = app.router("r", domain="shop", start="beginning")
    router.route(name="to-task", type="made", deliver=child, enabled=True, dry_run=False)
    router.route(name="to-box", type="sent", deliver=Outbox("out"), enabled=True, dry_run=False)
    router.route(name="told", type="told", deliver=tell, enabled=True, dry_run=False)

    @app.task
    async def parent(ctx: offpath.Context) -> None:
        ctx.append("shop", "made", "s")
        await app.log.append("shop", "sent", "s", headers={"more": "m"})
        async with app.batch() as batch:
            batch.append("shop", "told", "s", headers={"tenant": "own"})

    await parent.options(headers=GIVEN).enqueue()
    await app.worker().run_until_idle()
    for one in (app.routers, router):
        await one.open_gate()
    await router.run_once()
    await app.worker().run_until_idle()
    (message,) = (await app.messages.find()).items
    assert await headers_of(app, "child") == [TENANT]
    assert msgspec.json.decode(message.headers) == TENANT
    assert seen == {"told": {"tenant": "own"}, "task made": TENANT}


async def test_a_large_fan_out_passes_them_on() -> None:
    async with offpath.App("memory://", auto_start=False, carry_headers=["tenant"]) as app:

        @app.task
        async def child() -> None: ...

        @app.task
        async def parent(ctx: offpath.Context) -> None:
            ctx.enqueue([child.job() for _ in range(2_500)])

        await parent.options(headers=GIVEN).enqueue()
        await app.worker().run_until_idle()
        seen = await headers_of(app, "child")
        assert (len(seen), seen.count(TENANT)) == (2_500, 2_500)


@pytest.mark.parametrize("name", ["carry_headers", "send_headers"])
@pytest.mark.parametrize("given", ["tenant", ["Tenant"], [1]])
def test_names_that_are_none_are_refused(name: str, given: Any) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        offpath.App("memory://", **{name: given})


# -- webhooks --------------------------------------------------------------------------------------


async def posted(rules: HeaderRules | None, headers: dict[str, str]) -> dict[str, str]:
    """The headers of a post of an event that has these."""
    rig = Rig() if rules is None else Rig(headers=rules)
    await rig.webhooks.add("one", "https://one.example.com/hooks")
    text = msgspec.json.encode(headers).decode()
    event = NewMessage(id=new_id(), box=Box.OUT, stream="default", payload="{}", headers=text)
    await rig.store.commit(Effects(messages=(event,)))
    await rig.run()
    (post,) = rig.receivers.posts
    return dict(post.headers)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_webhook_takes_the_trace_along_and_nothing_else() -> None:
    assert await posted(None, {"traceparent": TRACE, **GIVEN}) == {"traceparent": TRACE}
    assert await posted(None, GIVEN) == {}


async def test_names_that_may_leave_go_out_too() -> None:
    rules = HeaderRules(send=("traceparent", "tenant"))
    assert await posted(rules, GIVEN) == TENANT


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "ä", "a" * 1_001, ""])
async def test_what_http_has_no_form_of_stays(value: str) -> None:
    rules = HeaderRules(send=("tenant",))
    assert await posted(rules, {"tenant": value}) == {}
