"""The doors of a program, given anything: each answer is its own, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql

import offpath
from offpath.config import Settings
from offpath.economy import Actor, drain_inbox, webhook_door
from offpath.economy.web import economy_service
from offpath.events import BadSignature
from offpath.health.probe import Probe
from offpath.model.health import WorkerReport
from offpath.runtime.clock import SystemClock
from offpath.runtime.metrics import Metrics
from tests.integration.within.conftest import build_postgres
from tests.unit.economy.marketplace import Marketplace
from tests.unit.web import asgi

MOST = int(os.environ.get("OFFPATH_TEST_EXAMPLES", "150"))
bounded = settings(
    max_examples=MOST,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("within", build_postgres)


# -- offpath.enqueue -----------------------------------------------------------------------------

text = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", " ", "t", "x" * 201, "k" * 501, "a\x00b", "\u202e", "\ud800", "\x1b[2J"]),
)
scalar = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text)
document = st.recursive(
    scalar,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
).map(json.dumps)
moment = st.one_of(
    st.sampled_from(["infinity", "-infinity", "4000-01-01 BC", "294276-01-01", "now", "x"]),
    st.datetimes().map(str),
)
span = st.one_of(st.timedeltas().map(str), st.sampled_from(["1e400 s", "-0", "P1Y", "178000000 y"]))
number = st.one_of(st.integers(), st.floats(), st.sampled_from([2**31 - 1, -(2**31), 2**31]))
call = st.fixed_dictionaries(
    {"task": text},
    optional={
        "input": st.one_of(document, st.none(), st.just('{"n": 1}')),
        "queue": st.one_of(text, st.none()),
        "priority": st.one_of(number, st.none()),
        "delay": st.one_of(span, st.none()),
        "run_at": st.one_of(moment, st.none()),
        "unique_key": st.one_of(text, st.none()),
        "tags": st.one_of(document, st.none(), st.just('["a"]')),
    },
)


def enqueue(connection: psycopg.Connection[Any], values: dict[str, Any]) -> bool:
    """True where the door took it; else it must have been refused for a value."""
    names = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder()) for name in values
    )
    query = sql.SQL("select offpath.enqueue({})").format(names)
    try:
        with connection.transaction():
            connection.execute(query, list(values.values()))
    except (psycopg.DataError, psycopg.errors.UndefinedFunction, UnicodeEncodeError):
        return False  # a bad value, one of another type, and what the driver cannot send
    return True


async def test_whatever_the_sql_door_takes_can_be_read_and_run(url: str) -> None:
    taken = 0
    with psycopg.connect(url, autocommit=True) as connection:

        @bounded
        @given(call)
        def fuzz(values: dict[str, Any]) -> None:
            nonlocal taken
            taken += enqueue(connection, values)

        fuzz()
        assert enqueue(connection, {"task": "plain"})
    async with offpath.App(url, auto_start=False) as app:
        ran: list[str] = []

        @app.task
        async def plain() -> None:
            ran.append("plain")

        jobs = (await app.jobs.find(limit=1_000)).items
        assert 1 < len(jobs) <= taken + 1, "the fuzz never came through"
        assert [job.id for job in jobs if job.unreadable is not None] == []
        assert sum(one.count for one in await app.jobs.counts()) == len(jobs)
        await app.worker().run_until_idle()
        assert ran == ["plain"]


# -- the health probe ----------------------------------------------------------------------------

line = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"GET /readyz HTTP/1.1\r\n",
            b"POST /metrics HTTP/9.9\r\nContent-Length: -1\r\n\r\n",
            b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
            b"\r\n\r\n",
            b"Authorization: Bearer \xff\xfe\r\n",
        ]
    ),
)


def sent(port: int, lines: list[bytes]) -> bytes:
    """The probe's answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as door:
        try:
            door.sendall(b"".join(lines))
            door.shutdown(socket.SHUT_WR)
            return door.recv(65_536)
        except OSError:  # it has hung up
            return b""


async def test_the_probe_answers_the_next_one_whatever_it_was_sent() -> None:
    settings_ = Settings(health_port=0, health_token="t" * 20)
    probe = Probe(WorkerReport, settings_, SystemClock(), Metrics())
    async with probe:
        port = int(probe.url.rsplit(":", 1)[1])

        @bounded
        @given(st.lists(line, min_size=1, max_size=4))
        def fuzz(lines: list[bytes]) -> None:
            answer = sent(port, lines)
            assert not answer.startswith((b"HTTP/1.1 5", b"HTTP/1.0 5"))
            assert b"Traceback" not in answer

        await asyncio.to_thread(fuzz)
        good = b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"t" * 20 + b"\r\n\r\n"
        assert (await asyncio.to_thread(sent, port, [good])).startswith(b"HTTP/1.0 200")


# -- doors over HTTP -----------------------------------------------------------------------------

header = st.dictionaries(
    st.sampled_from(["content-type", "content-length", "origin", "host", "x-signature", "cookie"]),
    st.one_of(
        st.text(st.characters(max_codepoint=255), max_size=30),
        st.sampled_from(["application/json", "text/plain", "-1", "9" * 40, "http://evil.example"]),
    ),
    max_size=4,
)
body = st.one_of(
    st.binary(max_size=200),
    document.map(str.encode),
    st.builds(
        lambda kind, rest: json.dumps({"kind": kind, **rest}).encode(),
        st.sampled_from(["spend", "topUp", "refund", "fund", "nothing", "", "reverse"]),
        st.dictionaries(
            st.sampled_from(["key", "user", "buyer", "amount", "price", "recipients", "orderId"]),
            st.one_of(scalar, st.sampled_from(["CREDIT:1.00", "USD:-1", "CREDIT:1e9", "ann"])),
        ),
    ),
)
path = st.one_of(
    st.sampled_from(
        ["/submit", "/submit/", "/webhooks/acme", "/healthz", "/openapi.json", "/", "//", "/.."]
    ),
    st.just("/submit"),
    st.text(st.characters(max_codepoint=127), max_size=30).map("/{}".format),
)


async def fuzz_door(door: Any, allowed: set[int]) -> set[int]:
    """The codes of a door's answers to any requests. Each comes within the time of one."""
    loop, codes = asyncio.get_running_loop(), set[int]()

    @bounded
    @given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "X"]), path, body, header)
    def fuzz(method: str, where: str, sent: bytes, headers: dict[str, str]) -> None:
        asking = asgi.ask(door, method, where, sent, headers)
        answer = asyncio.run_coroutine_threadsafe(asking, loop).result(30)
        codes.add(answer.code)
        assert answer.code < 500 or answer.code in allowed, answer
        assert b"Traceback" not in answer.body

    await asyncio.to_thread(fuzz)
    return codes


async def test_the_economys_service_answers_any_request_by_a_refusal() -> None:
    market = Marketplace()
    async with market.app:
        service = economy_service(market.economy, authenticate=lambda _: Actor.system("shop"))
        codes = await fuzz_door(service, set())
        assert len(codes) > 1, "the fuzz met one wall only"


async def test_an_inbox_door_answers_any_request_by_a_refusal() -> None:
    async with offpath.App(auto_start=False) as app:

        def verified(sent: bytes, _: Any) -> str:
            if sent[:1] == b"{":
                return "event-1"
            raise BadSignature("it is not signed", reason="missing")

        codes = await fuzz_door(app.inbox_door("bank", verifier=verified), set())
        assert len(codes) > 1, "the fuzz met one wall only"


# -- what a payment provider reports ---------------------------------------------------------------

money = st.one_of(
    st.sampled_from(
        ["CREDIT:1.00", "USD:-1", "USD:0.01", "CREDIT:1e9", "CREDIT:NaN", ":", "EUR:5"]
    ),
    st.sampled_from(["CREDIT:" + "9" * 40, "CREDIT:0.000000001", "\u0661:1", "CREDIT:1\x00"]),
    scalar,
)
anybody = st.one_of(st.sampled_from(["ann", "bob", "platform", "ann:spendable", "\u202eann"]), text)
reported = st.fixed_dictionaries(
    {},
    optional={
        "user": st.one_of(anybody, scalar),
        **dict.fromkeys(("amount", "dollars", "fee"), money),
        **dict.fromkeys(("source", "payoutId", "providerRef", "orderId", "reason"), scalar),
    },
)
likely = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob"]),
        "amount": st.sampled_from(["CREDIT:1.00", "USD:0.01", "CREDIT:99999999999.00"]),
        "source": st.sampled_from(["p", "x" * 201, "\u202e"]),
        "payoutId": text,
        "providerRef": text,
    }
)
kind = st.sampled_from(["purchase", "payoutSettled", "payoutFailed", "dispute", "other", "", None])
provider_body = st.one_of(
    st.builds(
        lambda kind, data: json.dumps({"type": kind, "data": data}).encode(),
        kind,
        st.one_of(reported, likely),
    ),
    st.builds(lambda kind, data: json.dumps({"type": kind, "data": data}).encode(), kind, scalar),
    document.map(str.encode),
    st.binary(max_size=200),
    st.integers(1, 5_000).map(lambda deep: b"[" * deep),
    st.just(b'{"type": "purchase", "data": {"amount": ' + b"9" * 5_000 + b"}}"),
)


async def test_a_providers_door_answers_any_report_and_what_it_keeps_stops_no_other() -> None:
    """Each report is genuine: the provider itself, or who has its secret, may send anything."""
    market = Marketplace()
    loop, codes = asyncio.get_running_loop(), set[int]()
    ids = itertools.count()
    async with market.app:
        door = webhook_door(market.economy, "acme", verifier=lambda *_: f"event-{next(ids)}")

        @bounded
        @given(provider_body, header)
        def fuzz(sent: bytes, headers: dict[str, str]) -> None:
            asking = asgi.ask(door, "POST", "/", sent, headers)
            answer = asyncio.run_coroutine_threadsafe(asking, loop).result(30)
            codes.add(answer.code)
            assert answer.code in {200, 202, 400, 403, 408, 413, 415}, answer
            assert b"Traceback" not in answer.body

        await asyncio.to_thread(fuzz)
        assert len(codes) > 1, "the fuzz met one wall only"
        good = {"type": "purchase", "data": {"user": "zoe", "amount": "CREDIT:5.00", "source": "p"}}
        assert (await asgi.ask(door, "POST", "/", json.dumps(good).encode())).code == 202
        for _ in range(5):
            await drain_inbox(market.economy)
        assert str(await market.economy.read.balance("zoe:spendable")) == "CREDIT:5.00"
        assert (await market.economy.prove()).holds
