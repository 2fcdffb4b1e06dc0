"""Reading one job on Django's connection, in its transaction if one is open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offpath.contrib.schema_steps import PACKAGES
from offpath.store.programs.dialect import one_at_a_time
from offpath.store.programs.reads import get
from offpath.store.within import run_within_blocking

if TYPE_CHECKING:
    from offpath.model.job import JobRecord
    from offpath.store.programs.dialect import Dialect as Written
    from offpath.store.within import Dialect


def read_job(connection: Any, dialect: Dialect, job: str) -> JobRecord | None:  # noqa: ANN401 - Django's
    """The record of a job; None when there is none that this transaction sees."""
    steps = get(_written(dialect), [job])
    found = run_within_blocking(connection, one_at_a_time(steps), dialect=dialect)
    return next(iter(found), None)


def _written(dialect: Dialect) -> Written:
    if dialect == "sqlite":
        from offpath.store.sqlite.dialect import SqliteDialect

        return SqliteDialect(0)
    from offpath.store.postgres.dialect import PostgresDialect
    from offpath.store.sql import catalogue

    return PostgresDialect(catalogue(PACKAGES[dialect]), datetime.now(UTC))
