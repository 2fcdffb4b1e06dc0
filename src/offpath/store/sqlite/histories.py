"""The failures of jobs, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offpath.model.job import Failure
from offpath.store.programs.dialect import Queries
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.rows import failure_text
from offpath.store.sqlite.session import SQL

FAILURES_KEPT: Final = 50


def failure_steps(now: int, failures: Sequence[tuple[int, Failure]]) -> Queries[None]:
    """Add failures to the histories of jobs, named by ``seq``; the oldest give way."""
    if not failures:
        return
    rows = []
    for job, failure in failures:
        # The type is only for filters; the document keeps it exactly.
        kind = failure.type.replace("\0", "\N{REPLACEMENT CHARACTER}")
        rows.append((job, kind, failure_text(failure, now)))
    yield SQL["record_failures"](failures=batch(rows))
    yield SQL["trim_histories"](jobs=batch([job for job, _, _ in rows]), keep=FAILURES_KEPT)
