"""The inbox door: an ASGI app that takes what others post, and answers before it is applied.

A delivery is read, its signature checked, then its freshness, and only then it is accepted. So one
that is refused leaves its key free for the real one. It needs no framework, and every framework
can mount it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from offpath.errors import InvalidArgument, OffpathError, StoreRejected, TaskError, TooLarge
from offpath.events.webhook.signature import BadSignature
from offpath.model import checks
from offpath.model.browsers import foreign
from offpath.model.json_text import decode_json
from offpath.model.quiet import Quiet
from offpath.runtime.seats import Escaped, asked, called, check_seat, checked_seat

if TYPE_CHECKING:
    from offpath.events.inbox import Accepted

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Verify: TypeAlias = Callable[[bytes, Mapping[str, str]], Any]
"""``verify(body, headers)``, sync or async: the message's id, or None; ``BadSignature`` refuses."""
Key: TypeAlias = "Callable[[Incoming], str]"

TIMEOUT: Final = 30.0
"""Seconds that a sender has for its body."""
RETRY_AFTER: Final = 10
"""Seconds after which a sender may try again when the store is away."""


class Verifies(Protocol):
    """A check of a delivery, such as a :class:`Verifier`."""

    def verify(self, body: bytes, headers: Mapping[str, str], /) -> str | None:
        """The message's id. Raises ``BadSignature``."""
        ...


class Incoming(Quiet, frozen=True, kw_only=True):
    """A delivery that is genuine and fresh, for those who find its key."""

    id: str | None
    """The id that the verifier gave: the ``webhook-id`` of a Standard Webhook."""
    headers: Mapping[str, str]
    """By lower-case name."""
    payload: Any
    """The body, read as JSON."""


class Accept(Protocol):
    """``app.accept``."""

    async def __call__(
        self, source: str, key: str, payload: object = None, *, headers: Mapping[str, str] | None
    ) -> Accepted:
        """Store a message once per source and key."""
        ...


class Answer(Struct, frozen=True):
    """The answer to a sender."""

    code: int
    status: str
    """``accepted``, ``duplicate``, ``ignored``, ``refused`` or ``unavailable``."""
    more: dict[str, str] = {}
    headers: tuple[tuple[str, str], ...] = ()

    def refusing(self) -> bool:
        """True if nothing was stored."""
        return self.code >= 400  # noqa: PLR2004 - HTTP's own


class Refusal(Exception):
    """Ends a delivery with an answer that is not a success."""

    def __init__(self, code: int, reason: str, *headers: tuple[str, str]) -> None:
        super().__init__(reason)
        self.answer = Answer(code, "refused", {"reason": reason}, headers)


class Ignored(Exception):
    """Raised by whoever accepts: the delivery is genuine, and not for us. It is answered 200."""


class SenderLeft(Exception):
    """The sender closed its connection before its body was whole: there is nobody to answer."""


class Door:
    """One source's ASGI app. Made by ``app.inbox_door(...)``."""

    def __init__(
        self,
        source: str,
        *,
        verifier: Verifies | Verify,
        key: Key | None,
        accept: Accept,
        report: Callable[[BaseException, str], None],
        most_bytes: int,
        timeout: float | timedelta = TIMEOUT,
        keep_headers: Collection[str] = (),
        verbatim: bool = False,
    ) -> None:
        self.source = checks.name(source, "source")
        """The inbox source that deliveries are accepted for."""
        self._verify = _checker(verifier)
        self._key = checked_seat(key or _own_id, "key", plain=True)
        self._accept = accept
        self._report = report
        self._most_bytes = checks.integer(most_bytes, "most_bytes", least=1, most=1 << 40)
        self._timeout = checks.seconds(timeout, "timeout")
        self._keep = _names(keep_headers)
        self._verbatim = verbatim

    def __repr__(self) -> str:
        """Show the source; never a secret."""
        return f"<Door {self.source}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except SenderLeft:
            return
        except Ignored:
            answer = Answer(200, "ignored")
        except Refusal as refusal:
            answer = refusal.answer
        except BadSignature as error:
            answer = Answer(401, "refused", {"reason": error.reason})
        except Exception as error:  # noqa: BLE001 - a sender is answered, and the error reported
            answer = self._failed(error)
        await _respond(send, answer)

    def _failed(self, error: Exception) -> Answer:
        """The answer to a failed delivery: a fault of the delivery is the sender's, and after a
        fault of ours it may try again.
        """
        match error:
            case TooLarge():
                return Answer(413, "refused", {"reason": "too_large"})
            case InvalidArgument() | StoreRejected():
                return Answer(400, "refused", {"reason": error.code})
            case OffpathError():
                self._report(error, f"inbox door {self.source}")
                return Answer(503, "unavailable", {}, (("retry-after", str(RETRY_AFTER)),))
        self._report(error, f"inbox door {self.source}")
        return Answer(500, "failed")

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "POST":
            raise Refusal(405, "method", ("allow", "POST"))
        headers = _headers(scope)
        if foreign(headers):  # no sender is a browser; what it sends is decided by its signature
            raise Refusal(403, "foreign_origin")
        body = await self._body(headers, receive)
        # a verifier that has not run, or only seems to, has found nothing genuine
        given = await asked(self._verify, body, headers)
        incoming = Incoming(id=given, headers=headers, payload=_parsed(body))
        kept = {name: headers[name] for name in self._keep if headers.get(name)}
        # as it came where that can be stored: a number read as a float may lose digits
        payload = msgspec.Raw(body) if self._verbatim else incoming.payload
        accepted = await self._accept(self.source, self._key_of(incoming), payload, headers=kept)
        code, status = (202, "accepted") if accepted.new else (200, "duplicate")
        return Answer(code, status, {"id": accepted.id})

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The whole body; refused as soon as it is known to be too large."""
        told = headers.get("content-length", "")
        if told.isdecimal() and int(told[:20]) > self._most_bytes:
            raise Refusal(413, "too_large")
        try:
            async with asyncio.timeout(self._timeout):
                return await self._read(receive)
        except TimeoutError:
            raise Refusal(408, "too_slow") from None

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise SenderLeft
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                raise Refusal(413, "too_large")
            if not message.get("more_body", False):
                return bytes(body)

    def _key_of(self, incoming: Incoming) -> str:
        try:
            key = called(self._key, incoming)
        except (TaskError, Escaped):
            raise  # it does not concern the delivery
        except Exception as error:
            # the payload has not the form that the key is looked for in
            self._report(error, f"inbox door {self.source}: key")
            raise Refusal(400, "no_key") from error
        return checks.text(key, "key", longest=checks.MAX_KEY)


def _checker(verifier: Verifies | Verify) -> Verify:
    check = getattr(verifier, "verify", verifier)
    if not callable(check):
        raise InvalidArgument(
            "verifier is an offpath.events.Verifier, or a function of the body and the headers "
            f"that raises offpath.events.BadSignature; not {type(verifier).__name__}"
        )
    check_seat(check, "verifier")
    return check


def _own_id(incoming: Incoming) -> str:
    return incoming.id or ""


def _names(names: Collection[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidArgument(f"keep_headers must be a list of names: write [{names!r}]")
    return tuple(checks.name(one, "header name").lower() for one in names)


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name. Of a name that comes twice the first counts, as it was sent."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return decode_json(body, "the body")
    except InvalidArgument:
        raise Refusal(400, "not_json") from None


async def _respond(send: Send, answer: Answer) -> None:
    body = msgspec.json.encode({"status": answer.status, **answer.more})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in answer.headers),
    ]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    """Start and end as a server asks for it. The store is opened by the first delivery."""
    while True:
        message = await receive()
        phase = message["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return
