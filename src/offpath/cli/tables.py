"""Tables on a terminal: briefs, a line each, in which no word is broken, and others that go on
below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from textwrap import wrap
from typing import Final

from offpath.cli import colours

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
    coloured: bool = False,
) -> list[str]:
    """The lines of rows under their headings, within a width if that can be; ids stand first.

    Where they do not fit, ids are cut to their unique beginnings, which commands take. Then
    columns in which nothing stands are left out, and ``spare`` ones in which all rows have the
    same. At last the widest cells are cut (``…``), but no heading.
    Ids of ``single`` rows were not made in batches, and need less. States may be ``coloured``.
    """
    texts: Texts = [list(columns), *with_short_ids(columns, rows, width)]
    if not _fits(texts, width):
        texts = _without_same(_without_empty(texts), spare)
    if single or not _headings_fit(texts, width):
        texts = [texts[0], *with_short_ids(texts[0], texts[1:], width, _LEAST_IN_NEED)]
    widths = _narrowed(texts, width, whole=(0,))  # half a beginning of an id stands for nothing
    cut = [[_cut(*one) for one in zip(row, widths, strict=True)] for row in texts]
    return _lines(cut, widths, coloured=coloured)


def folded(columns: Sequence[str], rows: Texts, width: int, *, coloured: bool = False) -> list[str]:
    """The lines of rows under their headings, within a width if that can be: what is longer than
    its column goes on below. Ids are cut as in :func:`fitted`.
    """
    texts: Texts = [list(columns), *with_short_ids(columns, rows, width)]
    ids = [n for n, name in enumerate(columns) if name == "id"]
    widths = _narrowed(texts, width, whole=ids)
    below = [
        line
        for row in texts
        for line in zip_longest(
            *(_wrapped(*one) for one in zip(row, widths, strict=True)), fillvalue=""
        )
    ]
    return _lines(below, widths, coloured=coloured)


def whole(columns: Sequence[str], rows: Texts) -> list[str]:
    """The lines of rows under their headings for a pipe, which has no width: nothing is cut."""
    texts = [list(columns), *rows]
    return _lines(texts, _widths(texts), coloured=False)


def _narrowed(texts: Texts, width: int, whole: Sequence[int]) -> list[int]:
    """The widths of columns that fit if they can; those that are kept ``whole`` give nothing, and
    no column less than its heading.
    """
    room, widths = width - len(GAP) * (len(texts[0]) - 1), _widths(texts)
    least = [min(have, max(len(name), _LEAST)) for name, have in zip(texts[0], widths, strict=True)]
    for one in whole:
        least[one] = widths[one]
    while sum(widths) > room and widths != least:
        # the widest of those that can give, so that narrow ones stay as they are
        can_give = (n for n, have in enumerate(widths) if have > least[n])
        widths[max(can_give, key=widths.__getitem__)] -= 1
    return widths


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


def _lines(texts: Texts, widths: Sequence[int], *, coloured: bool) -> list[str]:
    """The heading and the rows as lines; no blanks end them."""
    lines = []
    for number, row in enumerate(texts):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells = colours.states(texts[0], padded) if coloured and number else padded
        lines.append(GAP.join(cells).rstrip())
    return lines


def _wrapped(cell: str, width: int) -> list[str]:
    return wrap(cell, width, break_on_hyphens=False) or [""]


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
