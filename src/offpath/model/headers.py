"""Headers of a job: texts by name that travel with it and are not arguments of its handler.

Stored as a JSON object of texts, or as nothing when there are none. They are not part of what tells
a repeat from a conflict, and a job keeps them over all its attempts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from offpath.errors import InvalidArgument
from offpath.model.redact import is_secret

MOST: Final = 64
"""Most headers of one job."""
MOST_BYTES: Final = 8 * 1024
"""Most bytes of the names and values of one job's headers together, in UTF-8."""
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

TraceRelation: TypeAlias = Literal["link", "parent"]
"""The relation of an attempt to the trace of its enqueue: a trace of its own that is linked to it,
or a child within it."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode
_is_name = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}").fullmatch


def encoded_headers(headers: object) -> str | None:
    """The text that is stored of headers, None where there are none.

    Raises ``InvalidArgument`` for what is not a mapping of texts, a name that is none, a value
    with a NUL, or more than 64 of them or 8 KiB.
    """
    if not headers:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidArgument(
            f"headers must be a mapping of texts by name, not {type(headers).__name__}"
        )
    if len(headers) > MOST:
        raise InvalidArgument(f"a job can have at most {MOST} headers, not {len(headers)}")
    for name, value in headers.items():
        header_name(name)
        _require_value(name, value)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    if size > MOST_BYTES:
        raise InvalidArgument(
            f"the headers of a job have {size} bytes, over the limit of {MOST_BYTES}: "
            "keep what is large elsewhere, and give its key"
        )
    return _encode(dict(headers)).decode()


def refuse_secrets(encoded: str) -> None:
    """Raise ``InvalidArgument`` for a header whose name is that of a secret: it would be stored and
    shown as it is, and passed on.
    """
    for name in _decode(encoded):
        if is_secret(name):
            raise InvalidArgument(
                f"the header {name!r} would be stored in plain text: give a reference to the "
                "secret under another name (strict=False lets it pass)"
            )


def header_name(name: object) -> str:
    """The name of a header. Raises ``InvalidArgument`` for what cannot be one."""
    if isinstance(name, str) and _is_name(name):
        return name
    raise InvalidArgument(
        f"header name {name!r:.80} must have 1 to 64 characters of a-z, 0-9, '_', '.' and '-', "
        "and begin with a letter or a digit"
    )


def is_header(name: object, value: object) -> bool:
    """True if a job can have this header."""
    named = isinstance(name, str) and _is_name(name) is not None
    return named and isinstance(value, str) and "\0" not in value


def decoded_headers(text: str | None) -> Mapping[str, str]:
    """The headers of a stored text. Raises ``ValueError`` kinds for what is none."""
    return NO_HEADERS if text is None else _decoded(text)


def readable_headers(text: str) -> str:
    """The same text, read once. Raises ``ValueError`` kinds for what is none."""
    _decoded(text)
    return text


def with_headers(upper: str | None, lower: Mapping[str, str]) -> str | None:
    """The stored text with ``lower`` beside it, where ``upper`` names nothing else.

    Those of ``lower`` that do not fit beside it any more are left out, the last ones first.
    """
    said = decoded_headers(upper)
    more = {name: value for name, value in lower.items() if name not in said}
    while more:
        try:
            return encoded_headers({**said, **more})
        except InvalidArgument:
            more.popitem()
    return upper


@lru_cache(maxsize=256)
def _decoded(text: str) -> Mapping[str, str]:
    return MappingProxyType(_decode(text))


def _require_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidArgument(f"header {name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgument(f"header {name} must not have NUL characters")
