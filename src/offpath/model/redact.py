"""Texts that must not be shown: secrets by the name of their field, passwords in URLs and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "***"
"""The text in the place of a secret."""

SECRET_NAMES = frozenset(
    {
        "access_key",
        "api_key",
        "apikey",
        "authorization",
        "cookie",
        "credential",
        "dsn",
        "passphrase",
        "passwd",
        "password",
        "private_key",
        "pwd",
        "secret",
        "token",
    }
)
"""Field names that are secrets, in any case and as part of a longer name (``dbPassword``)."""

_DEEPEST = 20
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Up to the last @ of the word: a password may hold an @ that nobody escaped.
_IN_URL = re.compile(r"(?<=://)([^:@/\s]*):(\S*)@")
_IN_PARAMETER = re.compile(r"(%3A%2F%2F[^\s&]*?)(?:%3A|:)[^\s&]*(?:%40|@)", re.IGNORECASE)
"""A password in a URL that is the escaped parameter of another one."""
_IN_ADDRESS = re.compile(r"^((?>\s*(?:[\w+.-]+://)?)[^:@]*):.*@", re.DOTALL)
_IN_PAIR = re.compile(
    r"""\b(\w*(?:passw(?:or)?d|passphrase|secret|token|api_?key|dsn)\w*)(\s*[=:]\s*)"""
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s&,;)}\]]+)""",
    re.IGNORECASE,
)


def redact(value: Any, names: Iterable[str] = SECRET_NAMES) -> Any:  # noqa: ANN401 - any JSON
    """Copy mappings and lists with every field of a secret name hidden, at any depth.

    Text goes through :func:`redact_text`, names of fields too, which may be anybody's; other values
    are given back as they are.
    """
    return _redacted(value, frozenset(names), 0)


def is_secret(name: str, names: Iterable[str] = SECRET_NAMES) -> bool:
    """True if a field of this name is to be hidden."""
    return _is_secret(name, frozenset(names))


def redact_text(text: str) -> str:
    """Hide passwords in URLs and in ``password=…`` pairs anywhere in ``text``."""
    text = _IN_URL.sub(rf"\1:{HIDDEN}@", text)
    if "%" in text:
        text = _IN_PARAMETER.sub(rf"\1:{HIDDEN}@", text)
    return _IN_PAIR.sub(rf"\1\2{HIDDEN}", text)


def redact_url(url: str) -> str:
    """Hide the password of one URL or DSN, also of one that lacks its scheme or its escapes.

    What stands between the first colon after the scheme and the last @ is hidden.
    """
    return redact_text(_IN_ADDRESS.sub(rf"\1:{HIDDEN}@", url))


def _redacted(value: Any, names: frozenset[str], depth: int) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    if depth == _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {_key(key): _field(key, part, names, depth) for key, part in value.items()}
    return [_redacted(part, names, depth + 1) for part in value]


def _key(key: object) -> object:
    return _name(key) if isinstance(key, str) else key


# most of them are those of our own documents, which come again with every row
_name = lru_cache(maxsize=2048)(redact_text)


def _field(key: object, value: Any, names: frozenset[str], depth: int) -> Any:  # noqa: ANN401
    if isinstance(key, str) and _is_secret(key, names):
        return HIDDEN
    return _redacted(value, names, depth + 1)


@lru_cache(maxsize=2048)
def _is_secret(name: str, names: frozenset[str]) -> bool:
    spelled = f"_{_spelled(name)}_"
    return any(f"_{_spelled(one)}_" in spelled for one in names)


@lru_cache(maxsize=2048)
def _spelled(name: str) -> str:
    """``dbPasswords``, ``DB-Password`` and ``db_password`` alike: lower case, singular."""
    words = (word.lower() for word in _WORD.findall(name))
    return "_".join(word.removesuffix("s") or word for word in words)
