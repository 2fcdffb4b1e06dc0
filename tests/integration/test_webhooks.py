"""Webhooks over real sockets: slow receivers keep nobody waiting; answers mean what they say."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import tracemalloc
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

import offpath
from offpath.events.extended_delivery import ExtendedPoster
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.poster import HttpPoster, Post
from offpath.events.webhook.signature import Verifier
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint
from offpath.model.new import Box, NewMessage
from offpath.model.webhook import Delivered, Gone, Refused, RetryLater
from offpath.runtime.baggage import HeaderRules
from offpath.runtime.clock import SystemClock
from offpath.runtime.extension import Delivering, Extension
from offpath.runtime.extensions import Extensions
from offpath.runtime.ids import new_id
from tests.unit.events.webhook.rig import Rig

LOCAL = Guard(private=("127.0.0.0/8",), plain_http=True)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Answering = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """A server of one endpoint: reads a post, then answers as it is told to."""

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.connections = 0
        self.changed = asyncio.Event()
        self.url = ""
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hooks"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer_posts(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _answer_posts(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head)
            }
            body = await reader.readexactly(int(headers["content-length"]))
            self.got.append((headers, body))
            self.changed.set()
            await self._answer(writer)
            await writer.drain()

    async def until(self, count: int) -> None:
        """Return when so many posts have come."""
        while len(self.got) < count:
            self.changed.clear()
            await self.changed.wait()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def status(line: str, *more: str) -> Answering:
    """Answer at once, with an empty body."""
    head = "\r\n".join([f"HTTP/1.1 {line}", "Content-Length: 0", *more, "", ""]).encode()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)

    return answer


async def never(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def byte_by_byte(writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
        writer.write(bytes([byte]))
        await asyncio.sleep(1.0)


async def late(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30.0)
    await status("200 OK")(writer)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Answering], Awaitable[Receiver]]]:
    made: list[Receiver] = []

    async def start(answer: Answering) -> Receiver:
        receiver = Receiver(answer)
        await receiver.start()
        made.append(receiver)
        return receiver

    yield start
    for receiver in made:
        await receiver.close()


Serve = Callable[[Answering], Awaitable[Receiver]]


def _post(url: str, *secrets: str) -> Post:
    return Post(Endpoint(name="one", url=url, secrets=secrets or (SECRET,)), "msg_1", b'{"n":1}')


async def test_three_sick_receivers_of_ten_do_not_hold_up_the_seven(serve: Serve) -> None:
    rig = Rig(guard=LOCAL)
    rig.poster = HttpPoster(LOCAL, SystemClock())
    sick = [await serve(answer) for answer in (late, never, byte_by_byte)]
    healthy = [await serve(status("204 No Content")) for _ in range(7)]
    for number, receiver in enumerate([*sick, *healthy]):
        await rig.webhooks.add(f"e{number}", receiver.url)
    await rig.publish(50)
    await rig.fan_out.run_once(limit=100)
    posting = asyncio.create_task(_drive(rig))
    try:
        async with asyncio.timeout(15):
            for receiver in healthy:
                await receiver.until(50)
    finally:
        posting.cancel()
        await asyncio.wait({posting})
        await rig.posting.stop(0.0)
    ids = [Counter(headers["webhook-id"] for headers, _ in one.got) for one in healthy]
    assert [len(one) for one in ids] == [50] * 7
    assert all(count == 1 for one in ids for count in one.values())
    assert all(len(receiver.got) <= 5 for receiver in sick)
    assert rig.errors == []


async def test_names_that_hang_hold_up_neither_other_endpoints_nor_the_executor(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real worker, eight endpoints whose names are never found, and one that is well."""
    receiver = await serve(status("204 No Content"))
    answered = threading.Event()
    found = socket.getaddrinfo

    def lookup(host: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).startswith("slow"):
            assert answered.wait(60)
            raise socket.gaierror("gone")
        if host == "well.example":
            return found("127.0.0.1", *arguments, **options)
        return found(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setenv("OFFPATH_WEBHOOK_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("OFFPATH_WEBHOOK_HTTP", "1")
    app = offpath.App("memory://")
    app.webhooks.deliver("default")
    try:
        async with asyncio.timeout(20), app, app.worker():
            for number in range(8):
                await app.webhooks.add(f"s{number}", f"http://slow{number}.example:80/hooks")
            port = urlsplit(receiver.url).port
            await app.webhooks.add("well", f"http://well.example:{port}/hooks")
            for number in range(20):
                await app.publish("order.paid", {"n": number})
            await receiver.until(20)
            assert await asyncio.to_thread(lambda: "free") == "free"
    finally:
        answered.set()
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 20


async def _drive(rig: Rig) -> None:
    while True:
        await rig.posting.step()
        await asyncio.sleep(0)


async def test_what_arrives_is_what_was_signed(serve: Serve) -> None:
    receiver = await serve(status("200 OK"))
    poster = HttpPoster(LOCAL, SystemClock())
    assert await poster.post(_post(receiver.url)) == Delivered(200)
    ((headers, body),) = receiver.got
    assert Verifier(SECRET).verify(body, headers) == "msg_1"
    assert headers["content-type"] == "application/json"
    await poster.close()


async def test_a_trace_goes_out_unless_the_endpoint_declined_it(serve: Serve) -> None:
    """Also one that an extension adds at the post, and of deliveries that were planned before."""

    class Tracing(Extension):
        @contextmanager
        def delivering(self, out: Delivering, /) -> Iterator[None]:
            for message in out.messages:
                message.headers.update({"traceparent": "00-sent", "tracestate": "v=1"})
            yield

    faults: list[BaseException] = []
    rig = Rig(guard=LOCAL, headers=HeaderRules(send=("traceparent", "tenant")))
    poster = HttpPoster(LOCAL, SystemClock())
    rig.poster = ExtendedPoster(
        poster, Extensions([Tracing()], lambda error, _: faults.append(error))
    )
    told, silent = [await serve(status("204 No Content")) for _ in range(2)]
    await rig.webhooks.add("told", told.url)
    await rig.webhooks.add("silent", silent.url)
    headers = '{"traceparent":"00-mine","tenant":"acme"}'
    event = NewMessage(id=new_id(), box=Box.OUT, stream="default", payload="{}", headers=headers)
    await rig.store.commit(Effects(messages=(event,)))
    await rig.fan_out.run_once()
    await rig.webhooks.add("silent", silent.url, trace=False)
    assert [one.trace for one in await rig.webhooks.list()] == [False, True]
    await rig.run()
    ((with_trace, _),), ((without, _),) = told.got, silent.got
    assert (with_trace["traceparent"], with_trace["tracestate"]) == ("00-sent", "v=1")
    assert without.keys().isdisjoint({"traceparent", "tracestate"})
    assert (with_trace["tenant"], without["tenant"], faults) == ("acme", "acme", [])
    await poster.close()


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (status("201 Created"), Delivered(201)),
        (status("410 Gone"), Gone(410)),
        (status("429 Too Many Requests", "Retry-After: 7"), RetryLater(7.0, 429)),
        (status("503 Service Unavailable", "Retry-After: 9"), RetryLater(9.0, 503)),
        (
            status("429 Too Many Requests", "Retry-After: 7\r\nRetry-After: 60"),
            RetryLater(60.0, 429),
        ),
        (
            status("429 Too Many Requests", "Retry-After: 60\r\nRetry-After: soon"),
            RetryLater(60.0, 429),
        ),
        (status("503 Service Unavailable"), Refused("status 503", 503)),
        (status("500 Oops"), Refused("status 500", 500)),
        (
            status("302 Found", "Location: http://169.254.169.254/"),
            Refused("status 302: redirects are not followed", 302),
        ),
    ],
)
async def test_an_answer_means_what_its_status_says(
    serve: Serve, answer: Answering, meaning: object
) -> None:
    receiver = await serve(answer)
    poster = HttpPoster(LOCAL, SystemClock())
    assert await poster.post(_post(receiver.url)) == meaning
    await poster.close()


async def test_a_receiver_that_never_answers_is_given_up_after_the_limit(serve: Serve) -> None:
    receiver = await serve(never)
    poster = HttpPoster(LOCAL, SystemClock(), time_limit=0.2)
    assert await poster.post(_post(receiver.url)) == Refused("no answer within 0.2 s")
    await poster.close()


async def test_an_endless_body_does_not_keep_the_post(serve: Serve) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4\r\nmore\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    receiver = await serve(endless)
    poster = HttpPoster(LOCAL, SystemClock(), time_limit=5.0)
    assert await poster.post(_post(receiver.url)) == Delivered(200)
    await poster.close()


def _bomb(line: str) -> bytes:
    """An answer of 400 KiB that would become 400 MiB, or more if the reader goes on."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(2**20)
    body = b"".join([packer.compress(zeros) for _ in range(400)]) + packer.flush()
    head = f"HTTP/1.1 {line}\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _bytes_for_ever(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.05)


_HEADERS = b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(2_000))
_ANSWERS: dict[str, tuple[bytes, object]] = {
    "a bomb": (_bomb("200 OK"), Delivered(200)),
    "a bomb that refuses": (_bomb("500 Oops"), Refused("status 500", 500)),
    "two thousand headers": (
        b"HTTP/1.1 200 OK\r\n" + _HEADERS + b"Content-Length: 0\r\n\r\n",
        Refused,  # more than the client takes: refused, and not read on
    ),
    "a status that is none": (
        b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
        Refused("status 999", 999),
    ),
    "two thousand continues": (
        b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        Delivered(200),
    ),
    "what is not HTTP": (b"\x00\xff garbage\r\n\r\n" * 50, Refused),
    "a line without an end": (b"HTTP/1.1 200 " + b"O" * 2**20, Refused),
}


@pytest.mark.parametrize("name", _ANSWERS)
async def test_a_hostile_answer_is_bounded_in_time_and_memory(serve: Serve, name: str) -> None:
    """T2-23: each is judged by its status, and a bomb is never unpacked."""
    given, meaning = _ANSWERS[name]

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(given)

    receiver = await serve(answer)
    poster = HttpPoster(LOCAL, SystemClock(), time_limit=5.0)
    tracemalloc.start()
    try:
        got = await asyncio.wait_for(poster.post(_post(receiver.url)), 10)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await poster.close()
    assert isinstance(got, meaning) if isinstance(meaning, type) else got == meaning
    assert most < 16 * 2**20


async def test_bytes_that_never_end_do_not_keep_the_post(serve: Serve) -> None:
    receiver = await serve(_bytes_for_ever)
    poster = HttpPoster(LOCAL, SystemClock(), time_limit=1.0)
    assert await asyncio.wait_for(poster.post(_post(receiver.url)), 10) == Delivered(200)
    await poster.close()


async def test_nothing_listening_is_a_failed_post(serve: Serve) -> None:
    receiver = await serve(status("200 OK"))
    url = receiver.url
    await receiver.close()
    poster = HttpPoster(LOCAL, SystemClock())
    answer = await poster.post(_post(url))
    assert isinstance(answer, Refused)
    assert "127.0.0.1" not in answer.why
    await poster.close()


async def test_an_endpoint_that_leads_inside_is_not_connected_to(serve: Serve) -> None:
    receiver = await serve(status("200 OK"))
    poster = HttpPoster(Guard(plain_http=True), SystemClock())
    answer = await poster.post(_post(receiver.url))
    assert answer == Refused("not posted: Forbidden")
    assert receiver.connections == 0
    await poster.close()
