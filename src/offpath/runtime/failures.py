"""Exceptions as recorded text: whatever a handler raised, the attempt can be written down."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from offpath.model.job import Failure

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

TYPE_LIMIT = 200
MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
FRAME_LIMIT = 40
"""Innermost frames kept: a recursion error would otherwise bring a thousand."""
_ENGINE = ("offpath.jobs.", "offpath.runtime.", "asyncio.", "concurrent.futures.", "threading")
"""Modules between the event loop and a handler."""


def clean(text: str, limit: int) -> str:
    """Return ``text`` as every backend can store it: bounded, no NUL, no lone surrogate."""
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text) - limit} more characters)"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\x00", "\\x00")


def message_of(error: BaseException) -> str:
    """Return the error's own text, also when asking for it raises."""
    try:
        text = str(error)
    except BaseException as fault:  # noqa: BLE001 - a broken __str__ must not hide the failure
        return f"<its text could not be read: __str__ raised {type(fault).__name__}>"
    return clean(text, MESSAGE_LIMIT)


def traceback_of(error: BaseException) -> str | None:
    """Return the formatted traceback, bounded; None when there is none or it cannot be had."""
    if error.__traceback__ is None and error.__cause__ is None:
        return None
    frames = _from_handler(error.__traceback__)
    try:
        text = "".join(traceback.format_exception(type(error), error, frames, limit=-FRAME_LIMIT))
    except BaseException:  # noqa: BLE001 - foreign __repr__ and __notes__ run in here
        return None
    if len(text) > TRACEBACK_LIMIT:
        # The end of a traceback says what happened, its start where it came from.
        half = TRACEBACK_LIMIT // 2
        text = f"{text[:half]}\n… ({len(text) - 2 * half} characters left out) …\n{text[-half:]}"
    return clean(text, TRACEBACK_LIMIT + 200)


def _from_handler(frames: TracebackType | None) -> TracebackType | None:
    """``frames`` without the outer ones of the engine; all of them when there are no others.

    How a handler came to be called is the same each time, and nothing that its author can mend.
    """
    frame = frames
    while frame is not None:
        if not _is_engine(frame.tb_frame.f_globals.get("__name__", "")):
            return frame
        frame = frame.tb_next
    return frames


def _is_engine(module: str) -> bool:
    return module.startswith(_ENGINE)


def failure_of(
    error: BaseException,
    *,
    attempt: int,
    at: datetime,
    kind: str = "error",
    message: str | None = None,
) -> Failure:
    """Return ``error`` as a :class:`Failure` that is safe to store and to show."""
    return Failure(
        kind=kind,
        type=clean(type(error).__name__, TYPE_LIMIT),
        message=message_of(error) if message is None else clean(message, MESSAGE_LIMIT),
        traceback=traceback_of(error),
        attempt=attempt,
        at=at,
        module=_module_of(error),
    )


def _module_of(error: BaseException) -> str | None:
    module: object = type(error).__module__  # a class can be given anything there
    return clean(module, TYPE_LIMIT) if isinstance(module, str) else None
