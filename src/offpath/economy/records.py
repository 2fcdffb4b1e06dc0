"""Both sides of a reconciliation without a feed: a processor's file, and our own records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from offpath.economy.ledger.reconciliation import ReconcileRecord, RecordKind, Window
from offpath.errors import InvalidArgument
from offpath.model.json_text import decode_json
from offpath.model.ledger.chart import USD_CLEARING
from offpath.model.ledger.faults import ChainBroken, InvalidAmount
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.posting import LinkRecord, PostingRecord

if TYPE_CHECKING:
    from offpath.economy.economy import Economy

_PAGE: Final = 1000
_COLUMNS: Final = ("kind", "key", "amount", "ref", "at")
_KINDS: Final = {
    "topUp": (RecordKind.BUY, "ref"),
    "settlePayout": (RecordKind.PAYOUT, "providerRef"),
    "reverse": (RecordKind.REVERSAL, "ref"),
}
"""By a posting's kind: what a record of it is of, and what it is matched by."""


def read_records(file: Path) -> tuple[ReconcileRecord, ...]:
    """The records of a file: CSV with a heading, or one JSON object a line.

    Raises ``InvalidArgument`` with the number of the line that cannot be read.
    """
    rows = _csv(file) if file.suffix.lower() == ".csv" else _lines(file)
    try:
        return tuple(_record(row, number) for number, row in rows)
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{file.name} is not written in UTF-8: {error}") from error
    except csv.Error as error:
        raise InvalidArgument(f"{file.name} is not CSV: {error}") from error


async def recorded(economy: Economy, window: Window) -> tuple[ReconcileRecord, ...]:
    """The purchases and settled payouts that the ledger has in a window.

    Read from the account that all real money passes, backwards: it costs what was posted since the
    window began, not what ever was.
    """
    await economy.app.open()
    found: list[ReconcileRecord] = []
    store = economy.app.store()
    since, before = _millis(window.since), 0
    async with store.ledger_snapshot() as reads:
        while links := await reads.ledger_links(
            USD_CLEARING, after=before, limit=_PAGE, newest=True
        ):
            postings = await reads.ledger_postings(ids=[one.posting for one in links], limit=_PAGE)
            known = {one.id: one for one in postings}
            found += [
                record
                for link in links
                if (record := _own(link, known.get(link.posting))) is not None
                and record.at in window
            ]
            before = links[-1].number
            # The store's clock may have been set back: a page that is older as a whole ends it.
            if max(one.at for one in links) < since or before == 1:
                break
    return tuple(found)


def _own(link: LinkRecord, posting: PostingRecord | None) -> ReconcileRecord | None:
    if posting is None:
        raise ChainBroken(f"{link.account}: the posting {link.posting} is not there: run a proof")
    facts = posting.facts
    kind, named = _KINDS.get(str(facts.get("kind")), (None, ""))
    given = facts.get(named)
    if kind is None or (given is None and kind is RecordKind.REVERSAL):
        return None  # a fee sweep that was undone is between the platform and itself
    return ReconcileRecord(
        kind=kind,
        key=str(given).removeprefix("whk:"),
        amount=Money(Currency.USD, abs(link.amount)),
        ref=posting.id,
        at=datetime.fromtimestamp(link.at / 1000, UTC),
    )


def _csv(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with file.open(newline="", encoding="utf-8-sig") as text:
        rows = csv.DictReader(text)
        missing = set(_COLUMNS) - set(rows.fieldnames or ())
        if missing:
            raise InvalidArgument(f"{file.name} has no column {', '.join(sorted(missing))}")
        for row in rows:
            yield rows.line_num, row


def _lines(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            yield number, decode_json(line, f"line {number}", type=dict[str, Any])


def _record(row: Mapping[str, Any], number: int) -> ReconcileRecord:
    if missing := [name for name in _COLUMNS if row.get(name) in (None, "")]:
        raise InvalidArgument(f"line {number} has no {', '.join(missing)}")
    if row["kind"] not in list(RecordKind):
        raise InvalidArgument(
            f"line {number}: kind is {' or '.join(RecordKind)}, not {row['kind']!r}"
        )
    try:
        at = datetime.fromisoformat(row["at"])
        if at.utcoffset() is None:
            raise InvalidArgument(f"line {number}: {row['at']!r} has no time zone")
        return ReconcileRecord(
            kind=RecordKind(row["kind"]),
            key=str(row["key"]),
            amount=Money.parse(row["amount"], currency=Currency.USD),
            ref=str(row["ref"]),
            at=at,
        )
    except (InvalidAmount, ValueError, TypeError) as error:
        raise InvalidArgument(f"line {number}: {error}") from error


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
