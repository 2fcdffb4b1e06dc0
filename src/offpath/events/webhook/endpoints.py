"""Endpoints for those who run the service: add, list, pause, rotate, replay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct, json, structs

from offpath.errors import EndpointNotFound, InvalidArgument
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.keyring import Keyring, is_sealed
from offpath.events.webhook.signature import checked_secret, new_secret
from offpath.model import checks
from offpath.model.announce import STREAM as JOBS
from offpath.model.endpoint import Endpoint, EndpointState, stream_of
from offpath.model.message import MessageFilter, MessageState
from offpath.model.new import Box
from offpath.model.quiet import Quiet

if TYPE_CHECKING:
    from offpath.store.protocol import Store

_MOST_SECRETS: Final = 5
_LONGEST_NAME: Final = 100
_PAGE: Final = 500


class Added(Quiet, frozen=True, kw_only=True):
    """An endpoint that was added or changed, with the secret that its receiver needs.

    The secret is shown here and nowhere else.
    """

    endpoint: Endpoint
    secrets: tuple[str, ...]
    """One text: the newest secret."""
    new: bool

    @property
    def secret(self) -> str:
        """The newest secret."""
        return self.secrets[0]


class Receiver(Struct, frozen=True, kw_only=True):
    """The part of an endpoint that may be shown: everything but secrets and headers."""

    name: str
    url: str
    state: EndpointState
    reason: str | None
    topics: tuple[str, ...]
    streams: tuple[str, ...]
    trace: bool
    """True if ``traceparent`` goes out with its posts."""
    failures: int
    failing_since: datetime | None
    blocked_until: datetime | None
    created_at: datetime | None
    secrets: int
    """The number of secrets that sign."""


class Sealing(Struct, frozen=True, kw_only=True):
    """The form of all endpoints' secrets in the database; names of endpoints."""

    plain: tuple[str, ...] = ()
    """The endpoints with a secret that is stored in plain text."""
    shut: tuple[str, ...] = ()
    """The endpoints with a secret that no key of this process opens: nothing is posted to them."""


class Webhooks:
    """``app.webhooks``: which streams go to endpoints, and the endpoints themselves."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[Store]],
        guard: Callable[[], Guard],
        begun: Callable[[], None] = lambda: None,
        dispatched: Callable[[str], bool] = lambda _: False,
        keyring: Callable[[], Keyring] = Keyring,
    ) -> None:
        self._opened = opened
        self._dispatched = dispatched
        self._guard = guard
        self._begun = begun
        self._keyring = keyring
        self.streams: tuple[str, ...] = ()
        """The outbox streams whose events go to endpoints."""

    def __repr__(self) -> str:
        """Show the streams."""
        return f"<Webhooks streams={list(self.streams)}>"

    def deliver(self, *streams: str) -> None:
        """Post the events of these outbox streams to the endpoints that want them.

        Changes of announced jobs (``announce=``, stream ``offpath.jobs``) are always among them. A
        worker that knows of this does it. Raises ``InvalidArgument``, also for a stream that has a
        dispatcher: each event would go to either the one or the others.
        """
        named = [checks.name(stream, "stream") for stream in streams]
        for stream in (JOBS, *named):
            if self._dispatched(stream):
                raise InvalidArgument(f"the outbox stream {stream!r} has a dispatcher already")
        first = not self.streams
        self.streams = tuple(dict.fromkeys((JOBS, *self.streams, *named)))
        if first:
            self._begun()

    async def add(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        topics: Sequence[str] = ("*",),
        streams: Sequence[str] = ("*",),
        headers: Mapping[str, str] | None = None,
        trace: bool = True,
    ) -> Added:
        """Add an endpoint, or change the one of that name; its state and health are kept.

        Without ``secret`` a new endpoint gets a new one, and one that exists keeps its own.
        ``topics`` and ``streams`` are names, ``prefix.*`` or ``*``; ``trace=False`` keeps
        ``traceparent`` from its posts. Raises ``InvalidArgument``, and ``Forbidden`` for an
        address that webhooks are not posted to.
        """
        store = await self._opened()
        self._guard().check_url(url)
        given = None if secret is None else checked_secret(secret)
        known = await self._find(store, _name(name))
        keyring = self._keyring()
        secrets = _kept(None if known is None else keyring.opened(known.secrets), given)
        endpoint = Endpoint(
            name=name,
            url=url,
            secrets=keyring.sealed(secrets),
            topics=_patterns(topics, "topics"),
            streams=_patterns(streams, "streams"),
            headers=json.encode(_headers(headers)).decode(),
            trace=trace,
        )
        new = await store.put_endpoint(endpoint)
        return Added(endpoint=await self._known(store, name), secrets=secrets[:1], new=new)

    async def list(self) -> list[Receiver]:
        """Every endpoint, by name, without secrets."""
        return [_shown(one) for one in await (await self._opened()).endpoints()]

    async def get(self, name: str) -> Receiver:
        """One endpoint. Raises :class:`EndpointNotFound`."""
        return _shown(await self._known(await self._opened(), name))

    async def pause(self, name: str, reason: str = "paused by an operator") -> None:
        """Post nothing to it; what there is for it waits. Raises :class:`EndpointNotFound`."""
        await self._set(name, EndpointState.PAUSED, reason)

    async def resume(self, name: str) -> None:
        """Post to it again, also when it was disabled; what waited is due as it was."""
        await self._set(name, EndpointState.ENABLED, None)

    async def rotate(self, name: str, secret: str | None = None) -> Added:
        """Sign with a new secret and with the ones before it, until :meth:`retire`.

        Those that are kept are sealed anew, under the first key of ``OFFPATH_SECRET_KEY``.
        """
        store = await self._opened()
        known = await self._known(store, name)
        newest = new_secret() if secret is None else checked_secret(secret)
        keyring = self._keyring()
        secrets = tuple(dict.fromkeys((newest, *keyring.opened(known.secrets))))[:_MOST_SECRETS]
        await store.put_endpoint(structs.replace(known, secrets=keyring.sealed(secrets)))
        return Added(endpoint=await self._known(store, name), secrets=(newest,), new=False)

    async def retire(self, name: str) -> int:
        """Sign with the newest secret alone; returns how many were retired."""
        store = await self._opened()
        known = await self._known(store, name)
        await store.put_endpoint(structs.replace(known, secrets=known.secrets[:1]))
        return len(known.secrets) - 1

    async def reseal(self) -> int:
        """Seal every secret under the first key of ``OFFPATH_SECRET_KEY``; how many endpoints.

        Afterwards the keys behind the first are not needed any more. Raises ``InvalidArgument``
        without a key, and ``SecretKeyMissing`` for a secret that none of them opens.
        """
        keyring = self._keyring()
        if not keyring.seals:
            raise InvalidArgument("OFFPATH_SECRET_KEY is not set: there is no key to seal with")
        store = await self._opened()
        known = await store.endpoints()
        opened = [(one, keyring.opened(one.secrets)) for one in known]
        for one, secrets in opened:
            await store.put_endpoint(structs.replace(one, secrets=keyring.sealed(secrets)))
        return len(opened)

    async def sealing(self) -> Sealing:
        """The endpoints with secrets in plain text, or under a key that is missing here."""
        keyring = self._keyring()
        known = await (await self._opened()).endpoints()
        return Sealing(
            plain=tuple(one.name for one in known if not all(map(is_sealed, one.secrets))),
            shut=tuple(one.name for one in known if not keyring.can_open(one.secrets)),
        )

    async def remove(self, name: str) -> None:
        """Remove it. What was not posted yet stays until it is discarded, and is not posted."""
        if not await (await self._opened()).delete_endpoint(name):
            raise _unknown(name)

    async def replay(
        self, name: str, *, since: datetime, until: datetime | None = None, limit: int = 10_000
    ) -> int:
        """Post again what was delivered or given up since a time, oldest first; how many.

        Receivers know them by their ids. Raises :class:`EndpointNotFound` and ``InvalidArgument``.
        """
        checks.aware(since, "since")
        store = await self._opened()
        await self._known(store, name)
        where = MessageFilter(
            box=Box.OUT,
            streams=(stream_of(name),),
            states=(MessageState.DONE, MessageState.DEAD),
            created_after=since,
            created_before=None if until is None else checks.aware(until, "until"),
        )
        left = checks.integer(limit, "limit", least=1, most=1_000_000)
        revived, after = 0, None
        while left > 0:
            page = await store.find_messages(
                where, limit=min(left, _PAGE), after=after, newest=False
            )
            revived += len(await store.revive_messages([one.id for one in page.items]))
            left, after = left - len(page.items), page.next
            if after is None:
                break
        return revived

    async def _set(self, name: str, state: EndpointState, reason: str | None) -> None:
        if not await (await self._opened()).set_endpoint(name, state, reason):
            raise _unknown(name)

    async def _known(self, store: Store, name: str) -> Endpoint:
        found = await self._find(store, name)
        if found is None:
            raise _unknown(name)
        return found

    async def _find(self, store: Store, name: str) -> Endpoint | None:
        return next((one for one in await store.endpoints() if one.name == name), None)


def _unknown(name: str) -> EndpointNotFound:
    return EndpointNotFound(
        f"there is no endpoint {name!r}: app.webhooks.list(), or offpath endpoints list, has those "
        "there are"
    )


def _kept(known: tuple[str, ...] | None, given: str | None) -> tuple[str, ...]:
    if known is None:
        return (given or new_secret(),)
    return known if given is None or given in known else (given,)


def _name(value: str) -> str:
    checks.name(value, "endpoint name")
    return checks.text(value, "endpoint name", longest=_LONGEST_NAME)


def _patterns(values: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str) or not values:
        raise InvalidArgument(f"{what} is a list of names, 'prefix.*' or '*'")
    for value in values:
        checks.name(value, what)
        if "*" in value and value != "*" and not value.endswith(".*"):
            raise InvalidArgument(f"{what} holds names, 'prefix.*' or '*', not {value!r}")
    return tuple(values)


_FRAMING = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that would contradict what is really sent: the body, its length and coding, the peer."""


def _headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (headers or {}).items():
        if not (checks.text(value, name, longest=2_000).isprintable() and value.isascii()):
            raise InvalidArgument(f"the header {name!r} must have a printable ASCII text")
        if not name.replace("-", "").isalnum() or not name.isascii():
            raise InvalidArgument(f"{name[:60]!r} is not a header name")
        if name.lower().startswith("webhook-"):
            raise InvalidArgument(f"the header {name!r} is one of the signature's")
        if name.lower() in _FRAMING:
            raise InvalidArgument(
                f"the header {name!r} says how the request is sent: offpath sets that itself"
            )
    return dict(headers or {})


def _shown(endpoint: Endpoint) -> Receiver:
    names = set(Receiver.__struct_fields__) - {"secrets"}
    given = {name: getattr(endpoint, name) for name in names}
    return Receiver(**given, secrets=len(endpoint.secrets))
