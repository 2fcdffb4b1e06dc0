"""Rows as values of the model."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.job import Failure, JobState
from offpath.store.programs.instants import instant
from offpath.store.refusals import not_unicode

_encode = msgspec.json.Encoder().encode
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode
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
