"""Headers that pass on: from a job or a message to what its handler makes, and out of the house."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model.effects import Effects
from offpath.model.headers import NO_HEADERS, header_name, with_headers
from offpath.model.new import NewMessage

TRACE: Final = "traceparent"
"""The header of W3C Trace Context. It names no person and no tenant."""
MOST_OF_MESSAGE: Final = 50
"""Most headers of one message."""
LONGEST_OF_MESSAGE: Final = 2_000
"""Longest header of a message, in characters."""

_texts = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode
_is_http = re.compile(r"[\x20-\x7e]{1,1000}").fullmatch


class HeaderRules(Struct, frozen=True, kw_only=True):
    """The names that an app lets pass. Made by :func:`header_rules`."""

    carry: tuple[str, ...] = ()
    """From a handler to the jobs, messages and log events that it makes."""
    send: tuple[str, ...] = (TRACE,)
    """With webhooks."""

    def carried(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The part of ``headers`` that is carried on."""
        return _of(headers, self.carry)

    def sent(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The part of ``headers`` that is sent to others: what HTTP has no form for is left out."""
        leaving = _of(headers, self.send)
        return {name: value for name, value in leaving.items() if _is_http(value)}


PLAIN: Final = HeaderRules()

carried: ContextVar[Mapping[str, str]] = ContextVar("offpath_carried", default=NO_HEADERS)
"""The headers that are passed on here."""
"""The headers that a running job or message passes on to whatever it sends."""


def header_rules(carry: Iterable[str], send: Iterable[str]) -> HeaderRules:
    """The rules of an app that was given these names. Raises ``InvalidArgument``."""
    if not (carry or send):
        return PLAIN
    return HeaderRules(
        carry=_names(carry, "carry_headers"), send=(TRACE, *_names(send, "send_headers"))
    )


def carrying(effects: Effects, headers: Mapping[str, str]) -> Effects:
    """The effects with ``headers`` on all that they make, where that names nothing else."""
    if not headers or not (effects.jobs or effects.messages or effects.log):
        return effects
    return replace(
        effects,
        jobs=tuple(
            replace(job, headers=with_headers(job.headers, headers)) for job in effects.jobs
        ),
        messages=tuple(message_with(message, headers) for message in effects.messages),
        log=tuple(
            replace(event, headers=with_headers(event.headers, headers)) for event in effects.log
        ),
    )


def carry_on(headers: Mapping[str, str]) -> None:
    """Pass these on from here, in this task and the threads that it calls."""
    carried.set(headers)


@contextmanager
def carrying_on(headers: Mapping[str, str]) -> Iterator[None]:
    """Pass these on in the block."""
    token = carried.set(headers)
    try:
        yield
    finally:
        carried.reset(token)


def with_carried(effects: Effects) -> Effects:
    """The effects with what is passed on here; the same ones where that is nothing."""
    headers = carried.get()
    return carrying(effects, headers) if headers else effects


def encoded_texts(headers: Mapping[str, str]) -> str:
    """The headers of a message as they are stored."""
    return _encode(dict(headers)).decode() if headers else "{}"


def message_headers(message: NewMessage) -> dict[str, str]:
    """The headers that a message was given."""
    return {} if message.headers == "{}" else _texts(message.headers)


def message_with(message: NewMessage, headers: Mapping[str, str]) -> NewMessage:
    """The message with what fits of ``headers``; what it is about is never lost for them."""
    said = message_headers(message)
    more = {
        name: value
        for name, value in headers.items()
        if name not in said and 0 < len(value) <= LONGEST_OF_MESSAGE
    }
    room = MOST_OF_MESSAGE - len(said)
    fitting = dict(list(more.items())[:room]) if room > 0 else {}
    return replace(message, headers=encoded_texts({**said, **fitting})) if fitting else message


def _of(headers: Mapping[str, str], names: tuple[str, ...]) -> Mapping[str, str]:
    if not headers or not names:
        return NO_HEADERS
    return {name: headers[name] for name in names if name in headers}


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidArgument(f"{what} must be a list of names: write [{given!r}]")
    return tuple(dict.fromkeys(header_name(name) for name in given))
