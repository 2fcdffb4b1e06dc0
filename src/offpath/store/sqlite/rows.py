"""Rows as values of the model, and the failures of jobs as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.job import Failure, JobState
from offpath.store.programs.dialect import Queries
from offpath.store.programs.instants import instant
from offpath.store.refusals import not_unicode
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL

_encode = msgspec.json.Encoder().encode
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode
FAILURES_KEPT: Final = 50
OUTER: Final = {
    "scheduled": JobState.QUEUED,
    "ready": JobState.QUEUED,
    **{state.value: state for state in JobState if state is not JobState.QUEUED},
}
"""States as others see them."""


def dated(failure: Failure, now: int) -> Failure:
    """``failure`` with a time."""
    return failure if failure.at is not None else replace(failure, at=instant(now))


def failure_text(failure: Failure, now: int) -> str:
    """A failure as kept: a document. Raises ``StoreRejected``."""
    try:
        return _encode(dated(failure, now)).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error


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
