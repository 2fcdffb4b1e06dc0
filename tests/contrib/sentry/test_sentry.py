"""What Sentry gets: envelopes that a real receiver on loopback decodes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sentry_sdk

import offpath
from offpath import Abort, Snooze
from offpath.config import load_settings
from offpath.contrib.sentry import OffpathIntegration
from offpath.errors import InvalidArgument
from offpath.model.headers import decoded_headers
from offpath.model.lease import LeaseRequest, WorkerInfo
from offpath.runtime import seats
from offpath.runtime.clock import ManualClock
from offpath.testing import drain, pass_time
from tests.contrib.sentry.receiver import Envelopes


@pytest.fixture
def envelopes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Envelopes]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Envelopes()
    yield made
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    made.server.shutdown()
    made.server.server_close()


def init(envelopes: Envelopes, **options: Any) -> None:
    """Set the SDK up as a service does."""
    own = ("traces_sample_rate", "send_default_pii", "max_request_body_size", "data_collection")
    settings = {name: options.pop(name) for name in own if name in options}
    sentry_sdk.init(
        dsn=envelopes.dsn,
        integrations=[OffpathIntegration(**options)],
        default_integrations=False,
        auto_enabling_integrations=False,
        **settings,
    )


def made() -> offpath.App:
    return offpath.App("memory://", auto_start=False, clock=ManualClock())


async def failing(app: offpath.App, error: BaseException, retry: int = 2) -> str:
    """Run a job to its end, whose handler raises this at each attempt; its id."""

    @app.task(retry=retry, queue="mail")
    def work(secret: str) -> None:
        raise error

    handle = await work.enqueue("hidden-argument")
    for _ in range(retry):
        await drain(app)
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(3600)
    return handle.id


async def test_a_dead_job_is_one_error_with_its_attempt(envelopes: Envelopes) -> None:
    init(envelopes)
    async with made() as app:
        job = await failing(app, ValueError("broken"))
    (event,) = envelopes.of("event")
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "broken")
    assert error["stacktrace"]["frames"][-1]["function"] == "work"
    assert event["tags"] == {"task": "work", "queue": "mail", "attempt": "2"}
    assert event["contexts"]["offpath"]["jobs"] == [job]
    sent = json.dumps([event["tags"], event["contexts"]["offpath"]])
    assert "hidden" not in sent


pii = pytest.mark.filterwarnings("ignore:The send_default_pii option:DeprecationWarning")


@pii
@pytest.mark.parametrize(
    ("options", "letters", "shown"),
    [
        ({}, 3, None),
        ({"send_default_pii": False, "max_request_body_size": "always"}, 3, None),
        ({"send_default_pii": True}, 3, {"to": "aaa", "password": "***", "iban": "***"}),
        ({"send_default_pii": True, "max_request_body_size": "never"}, 3, None),
        ({"send_default_pii": True, "max_request_body_size": "small"}, 1_000, "small"),
        ({"send_default_pii": True}, 10_000, "medium"),
        ({"data_collection": {"queues": False}}, 3, None),
        ({"data_collection": {"queues": True}}, 3, {"to": "aaa", "password": "***", "iban": "***"}),
    ],
)
async def test_arguments_are_sent_as_the_options_of_the_sdk_say_with_secrets_hidden(
    envelopes: Envelopes, options: dict[str, Any], letters: int, shown: Any
) -> None:
    if "data_collection" in options:
        pytest.importorskip("sentry_sdk.data_collection")  # newer than the oldest SDK
    init(envelopes, **options)
    settings = load_settings(url="memory://", redact=("iban",))
    async with offpath.App(settings=settings, auto_start=False) as app:

        @app.task(retry=1)
        def work(to: str, password: str, iban: str) -> None:
            del to, password, iban
            raise ValueError

        await work.enqueue("a" * letters, "hunter2", "DE00")
        await drain(app)
    (event,) = envelopes.of("event")
    found = event["contexts"]["offpath"].get("arguments")
    if isinstance(shown, str):
        assert "max_request_body_size" in found
        assert shown in found
    else:
        assert found == shown


@pii
async def test_arguments_of_a_batch_are_those_of_each_job(envelopes: Envelopes) -> None:
    init(envelopes, send_default_pii=True)
    async with made() as app:

        @app.batch_task(size=5, retry=1)
        async def work(items: list[int]) -> list[int | Exception]:
            raise ValueError

        for number in range(3):
            await work.enqueue(number)
        await drain(app)
    events = envelopes.of("event")
    told = [event["contexts"]["offpath"]["arguments"] for event in events]
    assert told == [[{"item": 0}, {"item": 1}, {"item": 2}]] * 3


async def test_our_own_log_of_a_death_is_no_second_error(envelopes: Envelopes) -> None:
    """With what the SDK does by itself, as in a service."""
    sentry_sdk.init(dsn=envelopes.dsn, integrations=[OffpathIntegration()])
    async with made() as app:
        await failing(app, ValueError("broken"))
    assert [one["tags"]["task"] for one in envelopes.of("event")] == ["work"]


async def test_each_attempt_is_reported_where_that_is_asked_for(envelopes: Envelopes) -> None:
    init(envelopes, final_only=False)
    async with made() as app:
        await failing(app, ValueError("broken"))
    attempts = [event["tags"]["attempt"] for event in envelopes.of("event")]
    assert attempts == ["1", "2"]


@pytest.mark.parametrize("error", [Snooze(60), asyncio.CancelledError()])
async def test_what_is_not_a_failure_is_not_reported(
    envelopes: Envelopes, error: BaseException
) -> None:
    init(envelopes, final_only=False)
    async with made() as app:

        @app.task
        async def work() -> None:
            raise error

        await work.enqueue()
        if isinstance(error, Snooze):
            await drain(app)
    assert envelopes.of("event") == []


async def test_an_abort_is_reported_once(envelopes: Envelopes) -> None:
    init(envelopes)
    async with made() as app:
        await failing(app, Abort("no"), retry=5)
    assert len(envelopes.of("event")) == 1


async def test_scopes_of_fifty_threads_do_not_mix(envelopes: Envelopes) -> None:
    init(envelopes)
    async with made() as app:
        together = threading.Barrier(10, timeout=20)

        @app.task(retry=1)
        def work(number: int) -> None:
            sentry_sdk.set_tag("number", str(number))
            together.wait()
            raise ValueError(str(number))

        for number in range(50):
            await work.enqueue(number)
        await app.worker(concurrency=10).run_until_idle()
    events = envelopes.of("event")
    assert sorted(int(one["tags"]["number"]) for one in events) == list(range(50))
    assert all(one["tags"]["number"] == one["exception"]["values"][0]["value"] for one in events)


@pytest.mark.parametrize("traces", ["link", "continue"])
async def test_an_attempt_is_a_transaction_and_an_enqueue_a_span(
    envelopes: Envelopes, traces: Any
) -> None:
    init(envelopes, traces=traces, traces_sample_rate=1.0)
    async with made() as app:

        @app.task(queue="mail")
        async def work() -> None: ...

        with sentry_sdk.start_transaction(op="http.server", name="POST /orders") as web:
            handle = await work.enqueue()
        headers = decoded_headers((await app.jobs.get(handle.id)).headers)
        await drain(app)
    found = {one["transaction"]: one for one in envelopes.of("transaction")}
    (publish,) = found["POST /orders"]["spans"]
    (process,) = found["work"]["spans"]
    assert (publish["op"], process["op"]) == ("queue.publish", "queue.process")
    assert publish["data"]["messaging.message.id"] == handle.id
    assert process["data"]["messaging.destination.name"] == "mail"
    assert process["data"]["messaging.message.retry.count"] == 0
    assert process["data"]["messaging.message.body.size"] == len("{}")
    assert headers["sentry-trace"].startswith(web.trace_id)
    ran = found["work"]["contexts"]["trace"]
    assert (ran["op"], ran["status"]) == ("queue.task", "ok")
    assert (ran["trace_id"] == web.trace_id) is (traces == "continue")


def test_an_unknown_way_of_traces_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="link, continue"):
        OffpathIntegration(traces="child")  # type: ignore[arg-type]


async def test_without_the_integration_the_extension_does_nothing(envelopes: Envelopes) -> None:
    OffpathIntegration.setup_once()
    assert len([one for one in seats.EVERYWHERE if type(one).__name__ == "SentryExtension"]) == 1
    sentry_sdk.init(dsn=envelopes.dsn, default_integrations=False)
    async with made() as app:
        await failing(app, ValueError("broken"))
    assert envelopes.of("event") == []


# -- cron monitors -------------------------------------------------------------------------------


async def checked_in(
    envelopes: Envelopes, error: Exception | None, hours: int = 3, **terms: Any
) -> list[tuple[str, str]]:
    """The slugs and statuses of what is told of one schedule, after its first occurrence."""
    async with made() as app:

        @app.task(retry=2, timeout=90)
        def report() -> None:
            if error is not None:
                raise error

        app.schedule("Nightly Report!", report.job(), **terms)
        assert isinstance(app.clock, ManualClock)
        await pass_time(app, app.clock, timedelta(hours=hours))
        await pass_time(app, app.clock, timedelta(minutes=20))  # for a second attempt
    found = envelopes.of("check_in")
    assert len({one["check_in_id"] for one in found}) <= len(found)
    return [(one["monitor_slug"], one["status"]) for one in found]


async def test_an_occurrence_is_a_check_in_with_its_monitor(envelopes: Envelopes) -> None:
    init(envelopes, monitor_schedules=True)
    told = await checked_in(envelopes, None, cron="30 1 * * *", zone="Europe/Berlin", grace=300)
    assert told == [("nightly-report", "in_progress"), ("nightly-report", "ok")]
    first, last = envelopes.of("check_in")
    assert first["check_in_id"] == last["check_in_id"]
    assert last["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "30 1 * * *"},
        "timezone": "Europe/Berlin", "checkin_margin": 5, "max_runtime": 2,
    }  # fmt: skip


async def test_an_occurrence_that_dies_is_one_check_in_of_all_attempts(
    envelopes: Envelopes,
) -> None:
    init(envelopes, monitor_schedules=True)
    told = await checked_in(envelopes, ValueError("no"), cron="30 1 * * *")
    assert [status for _, status in told] == ["in_progress", "in_progress", "error"]
    assert len({one["check_in_id"] for one in envelopes.of("check_in")}) == 1


async def test_an_occurrence_that_kills_its_workers_is_told_to_have_failed(
    envelopes: Envelopes,
) -> None:
    init(envelopes, monitor_schedules=True)
    async with made() as app:

        @app.task
        def report() -> None: ...

        app.schedule("nightly", report.job(), every=3600)
        assert isinstance(app.clock, ManualClock)
        store = app.store()
        await store.pause_queue("default")
        await pass_time(app, app.clock, timedelta(hours=1))
        await store.resume_queue("default")
        info = WorkerInfo(id="w", host="h", pid=1, version="1", concurrency=1, tasks=("report",))
        await store.register(info, lease_seconds=10)
        await store.lease(LeaseRequest(worker="w", limit=1, tasks={"report": 1}))
        app.clock.advance(60)
        await store.rescue(limit=10, max_deliveries=1)
    (event,) = envelopes.of("event")
    assert event["exception"]["values"][0]["type"] == "WorkerLost"
    (told,) = envelopes.of("check_in")
    assert (told["monitor_slug"], told["status"]) == ("nightly", "error")


@pytest.mark.parametrize(
    ("terms", "known"),
    [
        ({"every": 3600}, {"type": "interval", "value": 60, "unit": "minute"}),
        ({"every": 90 * 60.5}, None),
        ({"cron": "@daily"}, {"type": "crontab", "value": "@daily"}),
    ],
)
async def test_only_what_sentry_can_watch_has_a_monitor(
    envelopes: Envelopes, terms: dict[str, Any], known: Any
) -> None:
    init(envelopes, monitor_schedules=True)
    told = await checked_in(envelopes, None, hours=25, **terms)
    assert bool(told) is (known is not None)
    for one in envelopes.of("check_in"):
        assert one["monitor_config"]["schedule"] == known


async def test_no_check_in_unless_asked_for_and_none_of_a_plain_job(envelopes: Envelopes) -> None:
    init(envelopes)
    assert await checked_in(envelopes, None, cron="30 1 * * *") == []
    init(envelopes, monitor_schedules=True)
    async with made() as app:
        await failing(app, ValueError("broken"))
    assert envelopes.of("check_in") == []
