"""The form of values in SQLite's statements, and how ends are counted there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from offpath.store.programs.dialect import Queries
from offpath.store.programs.instants import micros
from offpath.store.sql import Catalogue, Query, Row
from offpath.store.sqlite.parameters import batch, document, later
from offpath.store.sqlite.session import SQL


class SqliteWording:
    """Times are microseconds, batches JSON; the store's clock is always given."""

    __slots__ = ("now",)

    sql: Final[Catalogue] = SQL

    def __init__(self, now: int) -> None:
        self.now: Final = now

    @property
    def failures_first(self) -> bool:
        """A failure completes the message of the newest change, so it comes behind that."""
        return False

    def at(self, moment: datetime | None) -> int | None:
        """A time as a parameter."""
        return None if moment is None else micros(moment)

    def span(self, seconds: float | None) -> int | None:
        """A duration in microseconds, which leads to a time."""
        return None if seconds is None else later(self.now, seconds) - self.now

    def json(self, value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
        """A document as it is kept."""
        return document(value)

    def batch(self, rows: Iterable[Any]) -> str:
        """Rows as one parameter."""
        return batch(rows)

    def ids(self, ids: Iterable[str]) -> str:
        """Ids, once each: any text may be one."""
        return batch(sorted(set(ids)))

    def id(self, text: str) -> str | None:
        """An id: any text may be one."""
        return text

    def any_of(self, values: Sequence[str]) -> str | None:
        """A JSON list."""
        return batch(list(values)) if values else None

    def told_the_time(self) -> tuple[Query, ...]:
        """Statements take the time with them."""
        return ()

    def tally(
        self,
        ended: Mapping[str, bool],
        *,
        wait: bool,  # noqa: ARG002 - nobody else holds a gate
    ) -> Queries[Sequence[Row]]:
        """Count ended jobs in the gates that watch them."""
        ends = [(job, "succeeded" if well else "failed") for job, well in ended.items()]
        found = Counter(
            (gate, outcome) for gate, outcome in (yield SQL["count_watches"](ends=batch(ends)))
        )
        if not found:
            return []
        # In one statement for all: a batch of ends costs the same, however many gates watch them.
        counts = [
            (gate, found[gate, "succeeded"], found[gate, "failed"])
            for gate in sorted({gate for gate, _ in found})
        ]
        return (yield SQL["count_gates"](batch=batch(counts)))
