"""The form of a processor's file: its columns, separators, words, and how it writes amounts.

Processors' exports differ in all of these. A form says how one reads; nothing is guessed, and what
cannot be read is told with its line.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from offpath.economy.ledger.reconciliation import ReconcileRecord, RecordKind
from offpath.errors import InvalidArgument
from offpath.model.json_text import decode_json
from offpath.model.ledger.faults import InvalidAmount
from offpath.model.ledger.money import Currency, Money
from offpath.runtime.zones import zone_of

COLUMNS: Final = ("kind", "key", "amount", "ref", "at")
_IGNORED: Final = "-"


class RecordFormat(Struct, frozen=True, kw_only=True):
    """The way in which a processor writes its records. The default is our own form.

    Raises ``InvalidArgument`` for what cannot be meant.
    """

    columns: Mapping[str, str] = {}
    """By our names (``kind``, ``key``, ``amount``, ``ref``, ``at``) the file's; those that are left
    out have ours. ``ref`` may be left out of a file: it is the key then."""
    kinds: Mapping[str, str] = {}
    """By the file's word the kind: ``buy``, ``payout``, ``reversal``, ``dispute``, or ``-`` for
    lines that are none of these and are passed over. None given: the words are the kinds."""
    kind: str | None = None
    """The kind of every line, for a file that has no column of it."""
    delimiter: str = ","
    encoding: str = "utf-8-sig"
    minor_units: bool = False
    """True if an amount is whole cents; False: a decimal number, with or without ``USD:``."""
    decimal: str = "."
    """The sign before the cents; the other one of ``.`` and ``,`` parts thousands."""
    time_format: str | None = None
    """The form of times, as of ``datetime.strptime``; None: ISO 8601."""
    zone: str | None = None
    """The IANA zone of times that name none; None: they are refused."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if unknown := sorted(set(self.columns) - set(COLUMNS)):
            raise InvalidArgument(f"columns are {', '.join(COLUMNS)}, not {', '.join(unknown)}")
        words = [*self.kinds.values(), *([] if self.kind is None else [self.kind])]
        if wrong := [one for one in words if one not in {*RecordKind, _IGNORED}]:
            raise InvalidArgument(f"kinds are {', '.join(RecordKind)} or -, not {wrong[0]!r}")
        if len(self.delimiter) != 1 or self.decimal not in {".", ","}:
            raise InvalidArgument("delimiter is one character, decimal is . or ,")
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidArgument(f"there is no encoding {self.encoding!r}") from error
        if self.zone is not None:
            zone_of(self.zone)

    def read(self, file: Path) -> Iterator[ReconcileRecord]:
        """Give the records of a file one by one: a JSON object a line, or CSV with a heading where
        its name ends with ``.csv``, ``.tsv`` or ``.txt``.

        Raises ``InvalidArgument`` with the number of the line that cannot be read, and OSError.
        """
        plain = file.suffix.lower() in {".csv", ".tsv", ".txt"}
        rows = self._csv(file) if plain else _lines(file)
        try:
            for number, row in rows:
                if (record := self._record(row, number)) is not None:
                    yield record
        except UnicodeError as error:
            written = "UTF-8" if self.encoding == "utf-8-sig" else self.encoding
            raise InvalidArgument(f"{file.name} is not written in {written}: {error}") from error
        except csv.Error as error:
            raise InvalidArgument(f"{file.name} is not CSV: {error}") from error

    def _csv(self, file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
        with file.open(newline="", encoding=self.encoding) as text:
            rows = csv.DictReader(text, delimiter=self.delimiter)
            wanted = {self._name(one) for one in COLUMNS if self._needed(one)}
            if missing := wanted - set(rows.fieldnames or ()):
                raise InvalidArgument(f"{file.name} has no column {', '.join(sorted(missing))}")
            for row in rows:
                yield rows.line_num, row

    def _name(self, column: str) -> str:
        return self.columns.get(column, column)

    def _needed(self, column: str) -> bool:
        if column == "kind":
            return self.kind is None
        return column != "ref" or "ref" in self.columns or not self.columns

    def _record(self, row: Mapping[str, Any], number: int) -> ReconcileRecord | None:
        given = {one: row.get(self._name(one)) for one in COLUMNS}
        given["kind"] = self.kind or given["kind"]
        missing = [self._name(one) for one in COLUMNS if self._needed(one) and _blank(given[one])]
        if missing:
            raise InvalidArgument(f"line {number} has no {', '.join(missing)}")
        kind = self._kind(str(given["kind"]), number)
        if kind is None:
            return None
        try:
            return ReconcileRecord(
                kind=kind,
                key=str(given["key"]),
                amount=self._amount(given["amount"]),
                ref=str(given["key"] if _blank(given["ref"]) else given["ref"]),
                at=self._time(str(given["at"])),
            )
        except (InvalidAmount, InvalidArgument, ValueError, TypeError) as error:
            raise InvalidArgument(f"line {number}: {error}") from error

    def _kind(self, word: str, number: int) -> RecordKind | None:
        named = self.kinds.get(word, None if self.kinds else word)
        if named == _IGNORED:
            return None
        if named is None or named not in set(RecordKind):
            known = sorted(self.kinds) if self.kinds else list(RecordKind)
            raise InvalidArgument(f"line {number}: kind is {' or '.join(known)}, not {word!r}")
        return RecordKind(named)

    def _amount(self, given: object) -> Money:
        if self.minor_units:
            return Money(Currency.USD, abs(int(str(given))))
        text = str(given).strip()
        if self.decimal == ",":
            text = text.replace(".", "").replace(",", ".")
        elif "," in text and text.rpartition(",")[2].replace(".", "").isdigit():
            text = text.replace(",", "")
        amount = Money.parse(text if ":" in text else f"USD:{text}", currency=Currency.USD)
        return Money(Currency.USD, abs(amount.minor))

    def _time(self, text: str) -> datetime:
        form = self.time_format
        at = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)  # noqa: DTZ007 - its zone comes next
        if at.utcoffset() is None:
            if self.zone is None:
                raise InvalidArgument(f"{text!r} has no time zone: give the format a zone")
            at = at.replace(tzinfo=zone_of(self.zone))
        return at


def _blank(value: object) -> bool:
    return value is None or value == ""


def _lines(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, decode_json(line, f"line {number}", type=dict[str, Any])
