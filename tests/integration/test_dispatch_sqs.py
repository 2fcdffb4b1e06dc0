"""SQS by moto's server: an answered id is the acknowledgement, and order is a FIFO queue's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiobotocore.session import get_session
from aiohttp import web
from moto.server import ThreadedMotoServer

import offpath
from offpath.errors import RelayFailed
from offpath.events import Undeliverable
from offpath.events.dispatchers import NotAcknowledged, SqsDispatcher
from tests.integration.dispatching import event, publish, sending
from tests.servers import free_port

KEYS = {"aws_access_key_id": "me", "aws_secret_access_key": "s3cret", "region_name": "eu-central-1"}


@pytest.fixture
def port() -> Iterator[int]:
    found = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=found, verbose=False)
    server.start()
    yield found
    server.stop()


@pytest.fixture
def options(port: int) -> dict[str, Any]:
    return {**KEYS, "endpoint_url": f"http://127.0.0.1:{port}"}


@pytest.fixture
async def client(options: dict[str, Any]) -> AsyncIterator[Any]:
    async with get_session().create_client("sqs", **options) as made:
        yield made


async def made(client: Any, name: str) -> str:
    more = {"Attributes": {"FifoQueue": "true"}} if name.endswith(".fifo") else {}
    url: str = (await client.create_queue(QueueName=name, **more))["QueueUrl"]
    await client.purge_queue(QueueUrl=url)
    return url


async def received(client: Any, queue: str) -> list[tuple[str, dict[str, str]]]:
    """Everything that is in a queue, in the order in which it comes; it is deleted."""
    found: list[tuple[str, dict[str, str]]] = []
    while True:
        answer = await client.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        messages = answer.get("Messages", [])
        for one in messages:
            attributes = one.get("MessageAttributes", {})
            values = {name: value["StringValue"] for name, value in attributes.items()}
            found.append((one["Body"], values))
            await client.delete_message(QueueUrl=queue, ReceiptHandle=one["ReceiptHandle"])
        if not messages:
            return found


async def test_content_and_headers_arrive_once(client: Any, options: dict[str, Any]) -> None:
    queue = await made(client, "orders-paid")
    dispatcher = SqsDispatcher(queue.replace("paid", "{topic}"), options=options)
    async with sending(dispatcher) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    ((body, attributes),) = await received(client, queue)
    assert attributes.pop("Offpath-Created").startswith("20")
    assert (body, attributes) == (
        '{"n":"ä"}',
        {
            "Offpath-Id": one,
            "Offpath-Topic": "paid",
            "Offpath-Stream": "orders",
            "Offpath-Key": "k",
            "trace": "t1",
        },
    )


async def test_many_go_out_in_requests_of_ten(client: Any, options: dict[str, Any]) -> None:
    queue = await made(client, "many")
    async with sending(SqsDispatcher(queue, options=options)) as (app, relay, _):
        await publish(app, *range(45))
        assert (await relay.run_once()).counts == {"relayed": 45}
    assert sorted(int(body) for body, _ in await received(client, queue)) == list(range(45))


async def test_requests_are_kept_below_what_sqs_takes(client: Any, options: dict[str, Any]) -> None:
    queue = await made(client, "large")
    dispatcher = SqsDispatcher(queue, options=options)
    large = [event(id=f"e-{n}", body=json.dumps("x" * 400_000)) for n in range(5)]
    assert await dispatcher.dispatch_many(large) == [None] * 5
    await dispatcher.close()
    assert len(await received(client, queue)) == 5


async def test_one_that_is_too_large_is_a_dead_letter_alone(
    client: Any, options: dict[str, Any]
) -> None:
    queue = await made(client, "sizes")
    async with sending(SqsDispatcher(queue, max_bytes=2_000, options=options)) as (app, relay, _):
        await publish(app, 1, "x" * 3_000, 2)
        assert (await relay.run_once()).counts == {"relayed": 2, "dead_lettered": 1}
    assert sorted(body for body, _ in await received(client, queue)) == ["1", "2"]


async def test_more_headers_than_sqs_has_attributes_are_one_attribute(
    client: Any, options: dict[str, Any]
) -> None:
    queue = await made(client, "headers")
    dispatcher = SqsDispatcher(queue, options=options)
    for headers in ({f"h{n}": "v" for n in range(12)}, {"a b": "v"}, {"empty": ""}):
        assert await dispatcher.dispatch_many([event(headers=headers)]) == [None]
        ((_, attributes),) = await received(client, queue)
        assert json.loads(attributes["Offpath-Headers"]) == headers
        assert attributes["Offpath-Id"] == "e-1"
    await dispatcher.close()


async def test_each_key_of_a_fifo_queue_keeps_its_order_and_repeats_are_dropped(
    client: Any, options: dict[str, Any]
) -> None:
    queue = await made(client, "orders.fifo")
    dispatcher = SqsDispatcher(queue, options=options)
    async with sending(dispatcher, ordered=True) as (app, relay, _):
        for number in range(12):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 12}
        for attempt in (1, 2):  # as after an answer that was lost
            again = event(id="again", key="k9", attempt=attempt)
            assert await dispatcher.dispatch_many([again]) == [None]
    entries = await received(client, queue)
    for key in range(3):
        mine = [int(body) for body, found in entries if found["Offpath-Key"] == f"k{key}"]
        assert mine == list(range(key, 12, 3))
    assert [found["Offpath-Id"] for _, found in entries].count("again") == 1


async def test_what_meets_an_outage_is_delivered_after_it(port: int) -> None:
    more = {**KEYS, "endpoint_url": f"http://127.0.0.1:{port}"}
    async with get_session().create_client("sqs", **more) as client:
        queue = await made(client, "outage")
    other = free_port()
    options = {**KEYS, "endpoint_url": f"http://127.0.0.1:{other}"}
    async with sending(SqsDispatcher(queue, options=options)) as (app, relay, clock):
        await publish(app, 1, 2)
        with pytest.raises(RelayFailed) as failed:
            await relay.run_once()
        assert failed.value.tally.counts == {"failed": 2}
        back = ThreadedMotoServer(ip_address="127.0.0.1", port=other, verbose=False)
        back.start()  # moto's queues are the process's
        try:
            clock.advance(60)
            assert (await relay.run_once()).counts == {"relayed": 2}
        finally:
            back.stop()


async def test_a_queue_that_is_missing_fails_and_creating_it_is_enough(
    client: Any, options: dict[str, Any]
) -> None:
    queue = await made(client, "here")
    missing = SqsDispatcher(queue.replace("here", "later"), options=options)
    (refusal,) = await missing.dispatch_many([event()])
    assert isinstance(refusal, NotAcknowledged)
    assert "does not exist" in str(refusal)
    await made(client, "later")
    assert await missing.dispatch_many([event()]) == [None]
    await missing.close()


async def test_entries_that_sqs_refuses_fail_alone_each_by_its_kind() -> None:
    """moto refuses no entry of a batch, so a server of the test's own does, in the words of SQS."""
    failed = [
        {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "U+FFFE"},
        {"Id": "2", "SenderFault": False, "Code": "InternalError"},
        {"Id": "3", "SenderFault": True, "Code": "RequestThrottled"},
        {"Id": "4", "SenderFault": True, "Code": "KMS.AccessDenied"},
    ]

    async def answer(_: web.Request) -> web.Response:
        digest = hashlib.md5(b"1", usedforsecurity=False).hexdigest()
        done = [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": digest}]
        text = json.dumps({"Successful": done, "Failed": failed})
        return web.Response(text=text, content_type="application/x-amz-json-1.0")

    app, port = web.Application(), free_port()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    url = f"http://127.0.0.1:{port}"
    dispatcher = SqsDispatcher(f"{url}/1/orders", options={**KEYS, "endpoint_url": url})
    try:
        events = [event(id=f"e-{n}") for n in range(6)]
        kinds = [type(one) for one in await dispatcher.dispatch_many(events)]
    finally:
        await dispatcher.close()
        await runner.cleanup()
    later = NotAcknowledged
    assert kinds == [type(None), Undeliverable, later, later, later, later]


async def test_no_secret_is_told_and_what_is_missing_is_named() -> None:
    options = {**KEYS, "endpoint_url": "http://127.0.0.1:1"}
    dispatcher = SqsDispatcher("https://sqs.example/1/orders", options=options)
    assert "s3cret" not in repr(dispatcher)
    (refusal,) = await dispatcher.dispatch_many([event()])
    assert "s3cret" not in str(refusal)
    await dispatcher.close()
    nowhere = SqsDispatcher("https://sqs.example/1/orders", options={"region_name": None})
    with pytest.raises(NotAcknowledged, match="region"):
        await nowhere.open()
    await nowhere.close()


@pytest.mark.parametrize(
    ("queue", "more"),
    [
        ("orders", {}),
        ("https://sqs.example/{nobody}", {}),
        ("https://sqs.example/1/o", {"max_bytes": 1}),
        ("https://sqs.example/1/o", {"max_bytes": 2_000_000}),
        ("https://sqs.example/1/o", {"timeout": 0}),
        ("https://sqs.example/1/o", {"options": {"config": None}}),
    ],
)
def test_bad_arguments_are_refused(queue: str, more: dict[str, Any]) -> None:
    with pytest.raises(offpath.InvalidArgument):
        SqsDispatcher(queue, **more)
