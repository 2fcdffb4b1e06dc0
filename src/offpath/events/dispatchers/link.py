"""The common parts of the brokers' dispatchers: one connection, names made of events, safe
errors.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from string import Formatter
from types import ModuleType
from typing import Any, Generic, TypeVar
from urllib.parse import unquote, urlsplit

from offpath.errors import InvalidArgument, MissingExtra
from offpath.events.dispatcher import Event, Undeliverable
from offpath.model import checks

T = TypeVar("T")

FIELDS = ("topic", "stream", "key")
"""The fields of an event that a name may be made of."""
_LONGEST = 3_600.0


class NotAcknowledged(Exception):
    """The broker did not say that it has the event: it is due again later.

    It may have it all the same, when only the answer was lost; the event's id tells.
    """


def extra(module: str, name: str) -> ModuleType:
    """An optional library. Raises ``MissingExtra`` when it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"this dispatcher needs {module}", name) from error


class NameTemplate:
    """A name with fields, as ``orders.{topic}``. Raises ``InvalidArgument``."""

    def __init__(self, template: str, what: str) -> None:
        if not str(template).strip():
            raise InvalidArgument(f"{what} must be a text that is not empty, as 'orders.{{topic}}'")
        try:
            parts = list(Formatter().parse(template))
        except (ValueError, TypeError):
            raise InvalidArgument(
                f"{what} {template!r} is not text, or has a brace that is not closed"
            ) from None
        for _, field, spec, conversion in parts:
            if field is not None and (field not in FIELDS or spec or conversion):
                raise InvalidArgument(
                    f"{what} {template!r}: a field is {{topic}}, {{stream}} or {{key}}, as it is"
                )
        self.template = template
        self._what = what
        self._keyed = any(part[1] == "key" for part in parts)
        self._fixed = all(part[1] is None for part in parts)

    def of(self, event: Event) -> str:
        """The name for an event. Raises ``Undeliverable`` for one without a key that needs it."""
        if self._keyed and event.key is None:
            raise Undeliverable(f"the event has no key, which {self._what} {self.template!r} needs")
        if self._fixed and "{" not in self.template and "}" not in self.template:
            return self.template
        return self.template.format(topic=event.topic, stream=event.stream, key=event.key)


def addresses(given: str | Sequence[str], schemes: tuple[str, ...]) -> tuple[str, ...]:
    """Checked URLs of one or several servers. Raises ``InvalidArgument``, which shows no URL."""
    urls = (given,) if isinstance(given, str) else tuple(given)
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    for url in urls:
        try:
            parts = urlsplit(url)
            fits = parts.scheme in schemes and (parts.port or True)
        except (ValueError, TypeError, AttributeError):
            fits = False
        if not fits:
            raise InvalidArgument(f"the address of a server is a URL that begins with {wanted}")
    if not urls:
        raise InvalidArgument(f"give the address of at least one server: {wanted}…")
    return urls


def shown(urls: Sequence[str]) -> str:
    """The addresses without user, password, and parameters."""
    parts = [urlsplit(url) for url in urls]
    return ",".join(f"{one.scheme}://{one.netloc.rpartition('@')[2]}{one.path}" for one in parts)


def told(error: BaseException, urls: Sequence[str]) -> str:
    """The text of an error, bounded, and without what the URLs hold secret."""
    text = " ".join(str(error).split())[:300]
    for url in urls:
        parts = urlsplit(url)
        text = text.replace(url, shown((url,)))
        for secret in (parts.netloc.rpartition("@")[0], parts.password):
            for form in (secret, unquote(secret)) if secret else ():
                text = text.replace(form, "***")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def wait_limit(value: float | timedelta, name: str) -> float:
    """A time limit in seconds. Raises ``InvalidArgument``."""
    seconds = checks.seconds(value, name)
    if not 0 < seconds <= _LONGEST:
        raise InvalidArgument(f"{name} must be more than 0 and at most {_LONGEST:.0f} seconds")
    return seconds


def further(options: Mapping[str, Any] | None, ours: frozenset[str]) -> dict[str, Any]:
    """More options for the library. Raises ``InvalidArgument`` for those that are not free."""
    chosen = dict(options or {})
    if taken := sorted(ours & chosen.keys()):
        raise InvalidArgument(f"options may not have {', '.join(taken)}: the dispatcher sets it")
    return chosen


def event_headers(event: Event) -> dict[str, str]:
    """The event's own headers and ours: ``Offpath-Topic``, ``-Stream``, ``-Key``, ``-Created``."""
    headers = dict(event.headers)
    headers["Offpath-Topic"] = event.topic
    headers["Offpath-Stream"] = event.stream
    if event.key is not None:
        headers["Offpath-Key"] = event.key
    if event.created_at is not None:
        headers["Offpath-Created"] = event.created_at.isoformat()
    return headers


class Link(Generic[T]):
    """One connection for all callers, made anew by the next that needs it after it was lost.

    Nothing is kept for later while there is none: whoever asks is told at once that it failed, so
    that the relay's own backoff spaces the attempts.
    """

    def __init__(self, connect: Callable[[], Awaitable[T]], alive: Callable[[T], bool]) -> None:
        self._connect = connect
        self._alive = alive
        self._current: T | None = None
        self._making: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The connection; raises what connecting raised."""
        if self._current is not None and self._alive(self._current):
            return self._current
        if self._making is None:
            self._making = asyncio.create_task(self._make(), name="offpath broker connection")
        # shielded: a caller that gives up must not take the others' connection away
        return await asyncio.shield(self._making)

    async def _make(self) -> T:
        try:
            self._current = await self._connect()
            return self._current
        finally:
            self._making = None

    async def take(self) -> T | None:
        """The connection, to be closed: from now on there is none."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait((self._making,))
        current, self._current = self._current, None
        return current
