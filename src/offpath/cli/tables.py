"""Tables of briefs on a terminal: a row is one line, and no word is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

GAP: Final = "  "
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEAST_OF_ID: Final = 18
"""Characters of a shortened id: its millisecond and twelve bits, which others seldom have too."""
_LEAST: Final = 8
"""Characters that are left of a cell, or those of its heading."""

Texts = Sequence[Sequence[str]]


def fitted(columns: Sequence[str], rows: Texts, width: int) -> list[str]:
    """The lines of rows under their headings, within a width if that can be; ids stand first.

    Where they do not fit, ids are cut to their unique beginnings, which commands take. Then the
    widest cells are cut (``…``), but no heading.
    """
    room = width - len(GAP) * (len(columns) - 1)
    texts = [list(columns), *rows]
    if sum(_widths(texts)) > room:
        texts = [list(columns), *_shortened(rows)]
    widths = _widths(texts)
    least = [min(have, max(len(name), _LEAST)) for name, have in zip(columns, widths, strict=True)]
    least[0] = widths[0]  # half a beginning stands for nothing
    while sum(widths) > room and widths != least:
        # the widest of those that can give, so that narrow ones stay as they are
        can_give = (n for n, have in enumerate(widths) if have > least[n])
        widths[max(can_give, key=widths.__getitem__)] -= 1
    return _lines(texts, widths)


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


def _shortened(rows: Texts) -> list[list[str]]:
    """The rows with the beginnings of their ids, as long as these differ."""
    ids = sorted({row[0] for row in rows if _ID.fullmatch(row[0])})
    shared = max((_shared(one, other) for one, other in pairwise(ids)), default=0)
    length = max(_LEAST_OF_ID, shared + 1)
    return [
        [row[0][:length].rstrip("-") if row[0] in set(ids) else row[0], *row[1:]] for row in rows
    ]


def _shared(one: str, other: str) -> int:
    return next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
