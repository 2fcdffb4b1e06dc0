"""The form of values in Postgres' statements, and how ends are counted there in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from offpath.store.postgres.steps import ids_json, job_id, moment, to_json
from offpath.store.programs.dialect import Queries
from offpath.store.sql import Catalogue, Query, Row


class PostgresWording:
    """Times are ISO texts, batches JSON; without a time that was given, the server's clock."""

    __slots__ = ("now", "sql")

    def __init__(self, sql: Catalogue, now: datetime | None) -> None:
        self.sql: Final = sql
        self.now: Final = moment(now)

    @property
    def failures_first(self) -> bool:
        """The trigger that writes the message about an end reads the failures that are there."""
        return True

    def at(self, moment_: datetime | None) -> str | None:
        """A time as a parameter."""
        return moment(moment_)

    def span(self, seconds: float | None) -> float | None:
        """A duration in seconds; the server refuses one that leads to no time."""
        return seconds

    def json(self, value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
        """A document as it is kept."""
        return to_json(value)

    def batch(self, rows: Iterable[Any]) -> str:
        """Rows as one parameter."""
        return to_json(rows if isinstance(rows, list | tuple) else list(rows))

    def ids(self, ids: Iterable[str]) -> str:
        """Ids that are UUIDs, once each."""
        return ids_json(ids)

    def id(self, text: str) -> str | None:
        """An id that is a UUID."""
        return job_id(text)

    def any_of(self, values: Sequence[str]) -> list[str] | None:
        """A list, by which the server chooses an index."""
        return list(values) or None

    def told_the_time(self) -> tuple[Query, ...]:
        """Triggers write the messages about announced jobs, and would otherwise take their own."""
        return () if self.now is None else (self.sql["tell_the_time"](now=self.now),)

    def tally(self, ended: Mapping[str, bool], *, wait: bool) -> Queries[Sequence[Row]]:
        """Count ended jobs in the gates that watch them."""
        # Waited for, in the order of ids: nothing of jobs is locked behind this, so no circle can
        # close. Where gates may be held already, those that others hold are skipped.
        count = self.sql["count_gates" if wait else "count_gates_now"]
        succeeded = sorted(job for job, well in ended.items() if well)
        failed = sorted(job for job, well in ended.items() if not well)
        return (yield count(succeeded=to_json(succeeded), failed=to_json(failed)))
