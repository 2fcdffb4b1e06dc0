"""Views over a store in memory: what an operator asks to see, as one document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from cryptography.fernet import Fernet
from msgspec.structs import replace

import offpath
from offpath.config import Settings
from offpath.errors import InvalidArgument, NotFound
from offpath.health.fleet import serves
from offpath.model.effects import Effects
from offpath.model.endpoint import stream_of
from offpath.model.health import WorkerReport
from offpath.operating import code_views, event_views, list_views
from offpath.operating.redaction import NOT_SHOWN, Redaction
from tests.conformance.builders import new_job
from tests.conformance.message_builders import message
from tests.unit.operating import records

SECRET = "hunter2"


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An open app with a task, whose jobs nobody runs."""
    settings = Settings(secret_key=Fernet.generate_key().decode())
    made = offpath.App(settings=settings, auto_start=False)

    @made.task(queue="mail", retry=offpath.RetryOptions(attempts=5), timeout=3.0)
    async def send_mail(to: str, copies: int = 1) -> str:
        """Send a mail.

        More about it.
        """
        return to * copies

    async with made:
        yield made


def text_of(document: msgspec.Struct) -> str:
    """A document as JSON."""
    return msgspec.json.encode(document).decode()


async def test_the_configuration_shows_settings_and_hides_secrets() -> None:
    app = offpath.App(settings=Settings(secret_key=SECRET, health_token=SECRET))
    told = await code_views.config(app)
    assert SECRET not in text_of(told)
    named = {one.name: one.value for one in told.settings}
    assert (named["concurrency"], named["secret_key"]) == (100, "***")
    assert {one.name for one in told.packages} >= {"msgspec", "psycopg"}
    assert (told.backend, told.pending) == ("memory", 0)


async def test_a_task_is_told_with_its_options_and_its_schemas(app: offpath.App) -> None:
    told = await code_views.task(app, "send_mail")
    assert told.summary == "Send a mail."
    assert told.options is not None
    assert (told.options.queue, told.options.retry.attempts, told.options.timeout) == (
        "mail",
        5,
        3.0,
    )
    assert told.arguments is not None
    assert told.arguments["properties"]["copies"]["type"] == "integer"
    assert told.result == {"type": "string"}
    with pytest.raises(NotFound):
        await code_views.task(app, "nobody_knows")


async def test_a_task_that_only_has_jobs_is_a_task(app: offpath.App) -> None:
    job = new_job("elsewhere", queue="other")
    await app.store().commit(Effects(jobs=(job,)))
    told = {one.name: one for one in (await code_views.tasks(app)).items}
    assert (told["elsewhere"].here, told["elsewhere"].ready, told["elsewhere"].workers) == (
        False,
        1,
        0,
    )
    assert told["send_mail"].here
    shown = await code_views.task(app, "elsewhere")
    assert (shown.options, shown.queues) == (None, ("other",))


async def test_sweeps_are_told_with_the_loops_that_drive_them() -> None:
    app = offpath.App()
    async with app:
        told = {one.name: one for one in (await code_views.sweeps(app)).items}
    assert told["rescue"].own
    assert [one.state for one in told["rescue"].loops] != []


async def test_a_quiet_worker_serves_no_queue() -> None:
    loud = records.a_member()
    quiet = replace(loud, report=replace(loud.report or WorkerReport(), quiet=True))
    queue = loud.record.info.queues[0] if loud.record.info.queues else "default"
    assert (serves(loud, queue), serves(quiet, queue)) == (True, False)


async def test_a_list_hides_secrets_and_cuts_tags(app: offpath.App) -> None:
    tags = [f"tag{n}" for n in range(50)]
    await app.enqueue_by_name("send_mail", offpath.Options(tags=tags), to=SECRET)
    page = await list_views.jobs(app, {"queue": ("mail",)})
    assert SECRET not in text_of(page)
    (one,) = page.items
    assert (len(one.tags), one.more_tags, page.exhausted) == (20, 30, True)
    assert not (await list_views.jobs(app, {}, text=SECRET, seen=Redaction(payloads=False))).items
    assert (await list_views.jobs(app, {}, text=SECRET)).items


async def test_a_place_that_cannot_be_is_refused(app: offpath.App) -> None:
    views: list[Any] = [list_views.groups, list_views.gates, list_views.signals]
    for view in views:
        with pytest.raises(InvalidArgument):
            await view(app, after="nowhere")
    with pytest.raises(InvalidArgument):
        await event_views.log(app, after="-1")


async def test_signals_are_told_and_payloads_hidden(app: offpath.App) -> None:
    await app.signal("order-7", "paid", {"amount": 3, "password": SECRET})
    (told,) = (await list_views.signals(app)).items
    assert (told.target, told.event, told.payload) == (
        "order-7",
        "paid",
        {"amount": 3, "password": "***"},
    )
    (hidden,) = (await list_views.signals(app, Redaction(payloads=False))).items
    assert hidden.payload == NOT_SHOWN


async def test_the_log_is_told_newest_first_page_by_page(app: offpath.App) -> None:
    made = [await app.log.append("shop", "made", "orders", {"n": n}) for n in range(3)]
    first = await event_views.log(app, limit=2)
    rest = await event_views.log(app, limit=2, after=first.next)
    assert [one.id for one in (*first.items, *rest.items)] == made[::-1]
    assert rest.next is None
    assert (await event_views.event(app, made[0])).payload == {"n": 0}
    with pytest.raises(NotFound):
        await event_views.event(app, "0198c0de-0000-7000-8000-000000000001")


async def test_an_endpoint_is_told_with_its_newest_messages(app: offpath.App) -> None:
    with pytest.raises(NotFound):
        await event_views.endpoint(app, "acme")
    await app.webhooks.add("acme", "https://93.184.216.34/hooks", topics=["order.*"])
    posted = message(stream_of("acme"), topic="order.paid", payload=f'{{"password":"{SECRET}"}}')
    await app.store().commit(Effects(messages=(posted,)))
    told = await event_views.endpoint(app, "acme")
    assert [one.topic for one in told.messages] == ["order.paid"]
    assert (told.delivered, told.failed, told.due) == (0, 0, 1)
    assert SECRET not in text_of(told)
