"""Extensions around deliveries: entered where the dispatcher runs, with headers to add to."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import offpath
from offpath.errors import RelayFailed
from offpath.events import Event
from offpath.events.extended_delivery import ExtendedPoster
from offpath.events.webhook.poster import Post, _without_ours
from offpath.extensions import Delivering, Extension
from offpath.model.webhook import Answer, Delivered
from offpath.runtime.extensions import Extensions


class Tracing(Extension):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    @contextmanager
    def delivering(self, out: Delivering, /) -> Iterator[None]:
        for message in out.messages:
            message.headers["traceparent"] = f"00-{message.topic}"
        main = threading.current_thread() is threading.main_thread()
        self.seen.append((out.kind, out.to, len(out.messages), main))
        try:
            yield
        except Exception as error:
            self.seen.append((type(error).__name__,))
            raise


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    async with offpath.App(extensions=[Tracing()], auto_start=False) as app:
        yield app


def _tracing(app: offpath.App) -> Tracing:
    (one,) = app._own_extensions
    assert isinstance(one, Tracing)
    return one


async def test_an_async_dispatcher_gets_the_headers_that_were_added(app: offpath.App) -> None:
    got: list[Event] = []

    async def hand_on(event: Event) -> None:
        got.append(event)

    app.outbox("mail", dispatcher=hand_on)
    await app.publish("sent", 1, stream="mail", headers={"tenant": "acme"})
    await app.relay("mail").run_once()
    assert [dict(one.headers) for one in got] == [{"tenant": "acme", "traceparent": "00-sent"}]
    assert _tracing(app).seen == [("dispatcher", "mail", 1, True)]


async def test_a_blocking_dispatcher_is_surrounded_in_its_thread(app: offpath.App) -> None:
    got: list[Event] = []
    app.outbox("mail", dispatcher=got.append)
    await app.publish("sent", 1, stream="mail")
    await app.relay("mail").run_once()
    assert got[0].headers["traceparent"] == "00-sent"
    assert _tracing(app).seen == [("dispatcher", "mail", 1, False)]


async def test_a_dispatcher_of_many_is_surrounded_once(app: offpath.App) -> None:
    got: list[Event] = []

    class Many:
        async def dispatch_many(self, events: Sequence[Event], /) -> list[Exception | None]:
            got.extend(events)
            return [None for _ in events]

    app.outbox("mail", dispatcher=Many())
    for topic in ("a", "b"):
        await app.publish(topic, 1, stream="mail")
    assert (await app.relay("mail").run_once()).counts == {"relayed": 2}
    assert [one.headers["traceparent"] for one in got] == ["00-a", "00-b"]
    assert _tracing(app).seen == [("dispatcher", "mail", 2, True)]


async def test_a_failing_delivery_is_seen_and_stays_a_failure(app: offpath.App) -> None:
    async def refuses(event: Event) -> None:
        raise ConnectionError("refused")

    app.outbox("mail", dispatcher=refuses)
    await app.publish("sent", 1, stream="mail")
    with pytest.raises(RelayFailed):
        await app.relay("mail").run_once()
    assert _tracing(app).seen[-1] == ("ConnectionError",)


class Poster:
    """Notes what it is to post."""

    def __init__(self) -> None:
        self.posts: list[Post] = []

    async def post(self, post: Post) -> Answer:
        self.posts.append(post)
        return Delivered()

    async def close(self) -> None: ...


async def test_a_webhook_is_posted_with_the_headers_that_were_added() -> None:
    tracing, poster, told = Tracing(), Poster(), []
    surrounded = ExtendedPoster(poster, Extensions([tracing], lambda e, _: told.append(str(e))))
    endpoint: Any = SimpleNamespace(name="shop")
    await surrounded.post(Post(endpoint, "m1", b"{}", topic="sent"))
    assert dict(poster.posts[0].headers) == {"traceparent": "00-sent"}
    assert tracing.seen == [("webhook", "shop", 1, True)]
    assert told == []


async def test_a_header_that_cannot_be_sent_is_left_out_and_reported() -> None:
    class Careless(Extension):
        @contextmanager
        def delivering(self, out: Delivering, /) -> Iterator[None]:
            out.messages[0].headers.update({"good": "1", "bad\r\nname": "2", "worse": "3\r\nx: y"})
            yield

    poster, told = Poster(), []
    surrounded = ExtendedPoster(poster, Extensions([Careless()], lambda _, p: told.append(p)))
    endpoint: Any = SimpleNamespace(name="shop")
    await surrounded.post(Post(endpoint, "m1", b"{}"))
    assert dict(poster.posts[0].headers) == {"good": "1"}
    assert told == ["extension", "extension"]


def test_no_added_header_takes_the_place_of_a_signature() -> None:
    given = {
        "Webhook-Signature": "v1,forged",
        "webhook-id": "x",
        "Host": "evil",
        "traceparent": "t",
    }
    assert _without_ours(given) == {"traceparent": "t"}
