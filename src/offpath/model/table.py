"""A page of a table of the user's own, as the store is asked for it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class TablePage(Struct, frozen=True, kw_only=True):
    """Rows of ``columns``, by ``order``. Names are as the database has them, not quoted."""

    table: tuple[str, ...]
    """The table's name, or its schema and its name."""
    columns: tuple[str, ...]
    order: tuple[str, ...]
    after: tuple[Any, ...] | None = None
    """Rows above these values of ``order``."""
    ids: tuple[str, ...] | None = None
    """Rows with these values of the first column instead."""
    only: tuple[str, str] | None = None
    """A column and the text that it has in the rows that are meant."""
    newest: bool = False
    """The highest rows first."""
    limit: int = 100

    def text(self, placed: str) -> str:
        """The query in the SQL that both databases read; ``placed`` is the table, quoted.

        Names cannot be bound, so they are quoted. Values are bound: ``p0`` or ``i0`` and on.
        """
        order = ", ".join(_column(one) for one in self.order)
        columns = ", ".join(_column(one) for one in (*self.columns, *self.order))
        wanted = [] if self.only is None else [f"{_column(self.only[0])} = :only"]
        if self.ids is not None:
            given = ", ".join(f":i{n}" for n in range(len(self.ids)))
            wanted.append(f"{_column(self.columns[0])} in ({given})")
        elif self.after is not None:
            given = ", ".join(f":p{n}" for n in range(len(self.after)))
            wanted.append(f"({order}) > ({given})")
        where = f"where {' and '.join(wanted)}" if wanted else ""
        way = " desc" if self.newest else ""
        sort = ", ".join(f"{_column(one)}{way}" for one in self.order)
        return (
            f"select {columns} from {placed} as event {where} "  # noqa: S608 - names are quoted
            f"order by {sort} limit :limit"
        )

    @property
    def values(self) -> dict[str, Any]:
        """The values that the query binds."""
        letter, bound = ("i", self.ids) if self.ids is not None else ("p", self.after or ())
        only = {} if self.only is None else {"only": self.only[1]}
        return {**{f"{letter}{n}": one for n, one in enumerate(bound)}, **only, "limit": self.limit}


def quoted(name: str) -> str:
    """An identifier as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _column(name: str) -> str:
    """With its table's name: SQLite takes a quoted name that is not a column for a text."""
    return f"event.{quoted(name)}"
