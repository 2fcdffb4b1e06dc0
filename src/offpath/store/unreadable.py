"""Rows that somebody else wrote: what can be read of each, one by one, when a page cannot.

A page is decoded at once as long as that goes, which costs nothing. When it raises, each of its
rows is decoded by itself, and of one that cannot be read each column by itself: a neutral value
stands for what is not readable, and the value says which columns these were. So no row hides or
stops another.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, MsgspecError, Struct

from offpath.store.sql import Row

T = TypeVar("T")
S2 = TypeVar("S2")
R = TypeVar("R", bound=NamedTuple)
S = TypeVar("S", bound=Struct)

UNREADABLE: Final = (
    MsgspecError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""The errors that decoding a row may raise."""

LONGEST: Final = 2_000
"""Characters that are kept of the raw text of one column."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEUTRAL: Final[dict[type, Any]] = {
    datetime: _EPOCH,
    str: "",
    int: 0,
    float: 0.0,
    bool: False,
    tuple: (),
    list: [],
    dict: {},
}


UNREADABLE_EVENT: Final = (
    '{"position":0,"id":"","domain":"","type":"","stream":"","payload":"null",'
    '"at":"1970-01-01T00:00:00Z"}'
)
"""Stands for an event of the log that a letter keeps and nobody can read."""


UNREADABLE_SCHEDULE: Final = (
    '{"name":"","timing":{"kind":"cron"},'
    '"template":{"id":"","task":"","input":"","fingerprint":""}}'
)
"""Stands for a schedule's definition that nobody can read."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """The way from rows of one statement to values."""

    decode: Callable[[Row], T]
    columns: tuple[str, ...]
    plain: Row
    """A row that can be decoded: its columns stand for those that cannot."""
    marked: Callable[[T, dict[str, str]], T]
    """The same value with the mark of what could not be read, as raw texts by column."""

    @staticmethod
    def of(
        plain: R, decode: Callable[[R], S2], marked: Callable[[S2, dict[str, str]], S2]
    ) -> Shape[S2]:
        """The shape of rows that have a class of their own, by a plain one of them."""
        named = type(plain)._make
        return Shape(lambda row: decode(named(row)), plain._fields, plain, marked)

    def all(self, rows: Iterable[Row]) -> list[T]:
        """The values of ``rows``, in their order."""
        rows = list(rows)
        try:
            return [self.decode(row) for row in rows]
        except UNREADABLE:
            return [self.one(row) for row in rows]

    def one(self, row: Row) -> T:
        """The value of ``row``, marked where a column cannot be read."""
        try:
            return self.decode(row)
        except UNREADABLE:
            return self._salvaged(row)

    def _salvaged(self, row: Row) -> T:
        bad = [n for n in range(len(self.plain)) if not self._readable(row, n)]
        mended = list(row)
        for n in bad:
            mended[n] = self.plain[n]
        return self.marked(self.decode(mended), {self.columns[n]: raw_text(row[n]) for n in bad})

    def _readable(self, row: Row, n: int) -> bool:
        # One column among plain ones: a bad one must not make the others look bad.
        tried = list(self.plain)
        tried[n] = row[n]
        try:
            self.decode(tried)
        except UNREADABLE:
            return False
        return True


class Documents(Generic[S]):
    """Rows that are one JSON document each."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def all(self, rows: Iterable[Row]) -> list[S]:
        """The values of ``rows``, in their order, marked where they have a place for that."""
        rows = list(rows)
        try:
            return [self._decode(text) for (text,) in rows]
        except UNREADABLE:
            return [self.one(text) for (text,) in rows]

    def one(self, text: str) -> S:
        """The value of one document."""
        try:
            return self._decode(text)
        except UNREADABLE:
            return salvaged(self._kind, msgspec.json.decode(text))


def salvaged(kind: type[S], document: dict[str, Any]) -> S:
    """The readable part of ``document``, field by field."""
    values: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in document:
            values[field.name] = _default(field)
            continue
        raw = document[field.encode_name]
        try:
            values[field.name] = msgspec.convert(raw, field.type)
        except UNREADABLE:
            values[field.name] = _instead(field, raw)
            bad[field.name] = raw_text(raw)
    if "unreadable" in kind.__struct_fields__:
        values["unreadable"] = mark(bad)
    return kind(**values)


def mark(bad: dict[str, str]) -> str | None:
    """The columns that could not be read, with what they hold: ``deadline: infinity``."""
    return "; ".join(f"{column}: {text}" for column, text in bad.items()) or None


def raw_text(value: object) -> str:
    """A column's value as text, not more than is worth to keep."""
    text = value if isinstance(value, str) else _encoded(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _encoded(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (MsgspecError, TypeError, ValueError, OverflowError):
        return repr(value)


def _instead(field: msgspec.structs.FieldInfo, raw: object) -> Any:  # noqa: ANN401 - any field
    kind = field.type
    if isinstance(kind, type) and issubclass(kind, Struct):
        return salvaged(kind, raw if isinstance(raw, dict) else {})
    return _default(field)


def _default(field: msgspec.structs.FieldInfo) -> Any:  # noqa: ANN401 - any field
    if field.default is not NODEFAULT:
        return field.default
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return _neutral(field.type)


def _neutral(kind: Any) -> Any:  # noqa: ANN401 - any type
    origin = get_origin(kind) or kind
    if origin in (Union, types.UnionType):
        return None if type(None) in get_args(kind) else _neutral(get_args(kind)[0])
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return next(iter(origin))
    if isinstance(origin, type) and issubclass(origin, Struct):
        return salvaged(origin, {})
    return _NEUTRAL.get(origin)
