"""Tables of briefs on a terminal: a row is one line, and no word is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

GAP: Final = "  "
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{4,12}$")
_LEAST_OF_ID: Final = 28
"""Characters of a shortened id: its millisecond and the 42 bits that tell ids of one batch apart.
Those need not be in the table: what is shown of an id is to be nobody else's in the store.
"""
_LEAST_IN_NEED: Final = 18
"""The same where the other columns have no room: its millisecond and twelve bits."""
_LEAST: Final = 8
"""Characters that are left of a cell, or those of its heading."""

Texts = Sequence[Sequence[str]]


def fitted(
    columns: Sequence[str],
    rows: Texts,
    width: int,
    spare: Sequence[str] = (),
    *,
    single: bool = False,
) -> list[str]:
    """The lines of rows under their headings, within a width if that can be; ids stand first.

    Where they do not fit, ids are cut to their unique beginnings, which commands take. Then
    columns in which nothing stands are left out, and ``spare`` ones in which all rows have the
    same. At last the widest cells are cut (``…``), but no heading.
    Ids of ``single`` rows were not made in batches, and need less.
    """
    texts: Texts = [list(columns), *with_short_ids(columns, rows, width)]
    if not _fits(texts, width):
        texts = _without_same(_without_empty(texts), spare)
    if single or not _headings_fit(texts, width):
        texts = [texts[0], *with_short_ids(texts[0], texts[1:], width, _LEAST_IN_NEED)]
    columns, room = texts[0], width - len(GAP) * (len(texts[0]) - 1)
    widths = _widths(texts)
    least = [min(have, max(len(name), _LEAST)) for name, have in zip(columns, widths, strict=True)]
    least[0] = widths[0]  # half a beginning stands for nothing
    while sum(widths) > room and widths != least:
        # the widest of those that can give, so that narrow ones stay as they are
        can_give = (n for n, have in enumerate(widths) if have > least[n])
        widths[max(can_give, key=widths.__getitem__)] -= 1
    return _lines(texts, widths)


def with_short_ids(
    columns: Sequence[str], rows: Texts, width: int, least: int = _LEAST_OF_ID
) -> Texts:
    """The rows; with the beginnings of their ids where they are wider than this."""
    return rows if _fits([columns, *rows], width) else _shortened(rows, least)


def _fits(texts: Texts, width: int) -> bool:
    return sum(_widths(texts)) + len(GAP) * (len(texts[0]) - 1) <= width


def _without_empty(texts: Texts) -> Texts:
    """The heading and the rows without columns in which no row has anything."""
    kept = [column for column in zip(*texts, strict=True) if any(column[1:])]
    return [list(row) for row in zip(*kept, strict=True)]


def _without_same(texts: Texts, spare: Sequence[str]) -> Texts:
    """The heading and the rows without those columns of which each row has the same."""
    kept = [
        column
        for column in zip(*texts, strict=True)
        if column[0] not in spare or len(set(column[1:])) > 1
    ]
    return [list(row) for row in zip(*kept, strict=True)]


def _headings_fit(texts: Texts, width: int) -> bool:
    """True if there is room for the ids beside the other headings."""
    ids, *others = zip(*texts, strict=True)
    needed = sum(min(max(map(len, one)), max(len(one[0]), _LEAST)) for one in others)
    return max(map(len, ids)) + needed + len(GAP) * len(others) <= width


def _widths(rows: Texts) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _lines(rows: Texts, widths: Sequence[int]) -> list[str]:
    return [
        GAP.join(
            _cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def _shortened(rows: Texts, least: int) -> list[list[str]]:
    """The rows with the beginnings of their ids, as long as these differ."""
    ids = sorted({row[0] for row in rows if _ID.match(row[0])})
    shared = max((_shared(one, other) for one, other in pairwise(ids)), default=0)
    length = max(least, shared + 1)
    return [
        [row[0][:length].rstrip("-") if row[0] in set(ids) else row[0], *row[1:]] for row in rows
    ]


def _shared(one: str, other: str) -> int:
    return next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
