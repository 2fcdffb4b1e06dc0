"""The inbox door verifies, then accepts, and applies nothing; what it refuses leaves no key."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

import offpath
from offpath.errors import InvalidArgument, StoreUnavailable
from offpath.events import BadSignature, InboxMessage, Verifier
from offpath.events.door import Door
from offpath.events.webhook.signature import signed_headers, signer
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
BODY = b'{"order": 7, "amount": 5}'


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def app(clock: ManualClock) -> offpath.App:
    return offpath.App("memory://", clock=clock, auto_start=False)


@pytest.fixture
def door(app: offpath.App, clock: ManualClock) -> Door:
    return app.inbox_door("bank", verifier=Verifier(SECRET, clock=clock), most_bytes=1_000)


def signed(body: bytes = BODY, *, key: str = "msg_1", at: datetime = START) -> dict[str, str]:
    return signed_headers(key, at, body, [signer(SECRET)])


async def post(
    door: Door,
    body: bytes | Sequence[bytes] = BODY,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """One request as a server hands it over; the answer's code, document and headers."""
    parts = [body] if isinstance(body, bytes) else list(body)
    given = signed(b"".join(parts)) if headers is None else headers
    scope = {
        "type": "http",
        "method": method,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    ahead = [
        {"type": "http.request", "body": part, "more_body": at < len(parts)}
        for at, part in enumerate(parts, start=1)
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return ahead.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await door(scope, receive, send)
    start, end = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], json.loads(end["body"]), names


async def kept(app: offpath.App) -> list[str | None]:
    return [one.key for one in (await app.messages.find(box="in")).items]


async def test_a_genuine_delivery_is_accepted_once_and_applied_later(
    app: offpath.App, door: Door
) -> None:
    applied: list[tuple[str, Any]] = []

    @app.inbox("bank")
    async def handle(message: InboxMessage) -> None:
        applied.append((message.key, message.payload))

    async with app:
        first, told, headers = await post(door)
        again, repeated, _ = await post(door)
        assert (first, told["status"], again, repeated["status"]) == (
            *(202, "accepted"),
            *(200, "duplicate"),
        )
        assert told["id"] == repeated["id"] == (await app.messages.find()).items[0].id
        assert headers["content-type"] == "application/json"
        assert applied == []
        await app.drain("bank").run_once()
        assert applied == [("msg_1", {"order": 7, "amount": 5})]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing"),
        (signed(b"another body"), "no_match"),
        (signed(at=datetime(2025, 12, 31, 23, 50, tzinfo=UTC)), "too_old"),
        (signed() | {"webhook-timestamp": "1767225599"}, "no_match"),
        (signed() | {"webhook-timestamp": "now"}, "malformed"),
    ],
)
async def test_what_is_refused_leaves_its_key_free_for_the_real_one(
    app: offpath.App, door: Door, headers: dict[str, str], reason: str
) -> None:
    async with app:
        code, told, _ = await post(door, BODY, headers)
        assert (code, told) == (401, {"status": "refused", "reason": reason})
        assert await kept(app) == []
        assert (await post(door))[0] == 202
        assert await kept(app) == ["msg_1"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole(
    app: offpath.App, door: Door
) -> None:
    async with app:
        told_size = await post(door, b"", {"content-length": "1001"})
        assert told_size[:2] == (413, {"status": "refused", "reason": "too_large"})
        parts = [b"x" * 600, b"x" * 600, b"never read"]
        assert (await post(door, parts))[0] == 413
        assert (await post(door, [b"[" + b" " * 500, b" " * 498 + b"]"]))[0] == 202
        assert len(await kept(app)) == 1


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b'"\xff"', b"[" * 900, b"1e999"])
async def test_what_is_genuine_but_no_json_is_refused(
    app: offpath.App, door: Door, body: bytes
) -> None:
    async with app:
        code, told, _ = await post(door, body)
        assert (code, told["reason"]) == (400, "not_json")
        assert await kept(app) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
async def test_other_methods_are_told_the_right_one(door: Door, method: str) -> None:
    code, _, headers = await post(door, method=method)
    assert (code, headers["allow"]) == (405, "POST")


class Away(MemoryStore):
    """A store that cannot be reached."""

    async def commit(self, *_: Any) -> Any:
        raise StoreUnavailable("no route to host=db password=hunter2")


async def test_a_store_that_is_away_asks_the_sender_to_try_again(clock: ManualClock) -> None:
    told: list[tuple[str, str]] = []
    app = offpath.App(
        store=Away(clock),
        clock=clock,
        auto_start=False,
        on_error=lambda error, phase: told.append((type(error).__name__, phase)),
    )
    door = app.inbox_door("bank", verifier=Verifier(SECRET, clock=clock))
    async with app:
        code, document, headers = await post(door)
    assert (code, document, headers["retry-after"]) == (503, {"status": "unavailable"}, "10")
    assert ("StoreUnavailable", "inbox door bank") in told


async def test_numbers_are_stored_with_all_their_digits(app: offpath.App, door: Door) -> None:
    body = b'{"amount": 12345678901234567.8901, "n": 123456789012345678901234567890}'
    async with app:
        await post(door, body)
        (message,) = (await app.messages.find()).items
    assert message.payload == body.decode()


async def test_a_codec_of_your_own_is_given_the_value(clock: ManualClock) -> None:
    class Upper(offpath.JsonCodec):
        def encode(self, value: Any) -> str:
            return super().encode(value).upper()

    app = offpath.App("memory://", codec=Upper(), clock=clock, auto_start=False)
    door = app.inbox_door("bank", verifier=Verifier(SECRET, clock=clock))
    async with app:
        await post(door, b'{"a":  1}')
        assert (await app.messages.find()).items[0].payload == '{"A":1}'


def stripe_like(secret: bytes) -> Any:
    """Another scheme: ``signature: t=1767225600,v1=<hex>`` over ``t.body``."""

    async def verify(body: bytes, headers: Mapping[str, str]) -> None:
        parts = dict(part.split("=", 1) for part in headers.get("signature", "t=0").split(","))
        content = parts["t"].encode() + b"." + body
        expected = hmac.new(secret, content, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, parts.get("v1", "")):
            raise BadSignature("it does not fit", reason="no_match")

    return verify


async def test_another_scheme_and_a_key_from_the_payload(app: offpath.App) -> None:
    door = app.inbox_door(
        "stripe",
        verifier=stripe_like(b"s"),
        key=lambda incoming: incoming.payload["id"],
        keep_headers=("X-Kind", "X-Absent"),
    )
    body = b'{"id": "evt_1"}'
    mac = hmac.new(b"s", b"1." + body, hashlib.sha256).hexdigest()
    headers = {"signature": f"t=1,v1={mac}", "x-kind": "charge", "x-other": "no"}
    async with app:
        assert (await post(door, body, {}))[0] == 401
        assert (await post(door, body, headers))[0] == 202
        assert (await post(door, body, headers))[0] == 200
        (message,) = (await app.messages.find()).items
    assert (message.key, message.headers) == ("evt_1", '{"X-Kind":"charge"}'.lower())


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"id": 5}', b'{"id": ""}', b'{"id": "\\u0000"}'])
async def test_a_payload_without_a_usable_key_is_refused(app: offpath.App, body: bytes) -> None:
    door = app.inbox_door(
        "stripe", verifier=lambda *_: None, key=lambda incoming: incoming.payload["id"]
    )
    async with app:
        code, told, _ = await post(door, body, {})
        assert (code, told["reason"] in {"no_key", "invalid_argument"}) == (400, True)
        assert await kept(app) == []


async def test_a_verifier_that_breaks_accepts_nothing(clock: ManualClock) -> None:
    told: list[str] = []
    app = offpath.App(
        "memory://",
        clock=clock,
        auto_start=False,
        on_error=lambda error, _: told.append(type(error).__name__),
    )

    def broken(body: bytes, headers: Mapping[str, str]) -> str:
        raise KeyError("signature")

    async with app:
        code, document, _ = await post(app.inbox_door("x", verifier=broken))
        assert (code, document, told) == (500, {"status": "failed"}, ["KeyError"])
        assert await kept(app) == []


async def test_a_sender_that_leaves_or_stalls_leaves_nothing(app: offpath.App) -> None:
    door = app.inbox_door("bank", verifier=lambda *_: "id", timeout=0.01)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def stall() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "headers": []}
    async with app:
        await door(scope, leave, send)
        assert sent == []
        await door(scope, stall, send)
        assert sent[0]["status"] == 408
        assert await kept(app) == []


async def test_it_lives_and_ends_as_a_server_asks(door: Door) -> None:
    ahead = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return ahead.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await door({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_closed(door: Door) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await door({"type": "websocket"}, receive, send)
    assert sent == ["websocket.close"]


@pytest.mark.parametrize(
    "terms",
    [
        {"verifier": "whsec_text"},
        {"verifier": print, "most_bytes": -1},
        {"verifier": print, "timeout": -1},
        {"verifier": print, "keep_headers": "x-kind"},
    ],
)
def test_what_cannot_serve_is_refused_when_it_is_made(
    app: offpath.App, terms: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        app.inbox_door("bank", **terms)


def test_it_shows_no_secret(door: Door) -> None:
    assert repr(door) == "<Door bank>"
