"""The time line of a job: its attempts on one axis, from being enqueued to its end.

Pure. Places are parts of a thousand, so that a picture scales them as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from offpath.model.job import headline
from offpath.web.console.lengths import lasted

SCALE: Final = 1_000
_NARROWEST: Final = 6
"""The width of an attempt that took no time: it has to be seen."""


class TimelineMark(Struct, frozen=True):
    """Something that happened: an attempt, or the wait before it."""

    kind: str
    """``waits``, ``failed``, ``running`` or the state in which the job ended."""
    text: str
    x: int
    width: int


class Timeline(Struct, frozen=True):
    """The marks of a job, with the first and the last time."""

    first: datetime
    last: datetime
    marks: tuple[TimelineMark, ...]


def timeline_of(job: Mapping[str, Any], now: datetime) -> Timeline | None:
    """The time line of a plain job document; None for one that nothing has happened to."""
    first: datetime = job["enqueued_at"]
    ends = [one["at"] for one in job["failures"] if one["at"] is not None]
    last = max([first, *ends, job["finished_at"] or (now if job["started_at"] else first)])
    if last <= first:
        return None
    span: float = (last - first).total_seconds()

    def place(moment: datetime) -> int:
        part: float = (moment - first).total_seconds() / span
        return round(SCALE * min(max(part, 0.0), 1.0))

    marks = [_failed(one, place) for one in job["failures"] if one["at"] is not None]
    # the attempt that a job died of is its last failure, which is there already
    told = [one["attempt"] for one in job["failures"][-1:]]
    if job["started_at"] is not None and not (job["state"] == "dead" and job["attempt"] in told):
        marks.append(_last_attempt(job, place, now))
    return Timeline(first=first, last=last, marks=tuple(_seen(one) for one in marks))


def _failed(failure: Mapping[str, Any], place: Callable[[datetime], int]) -> TimelineMark:
    """An attempt that failed: as long as it took, where its start was kept."""
    end: datetime = failure["at"]
    start: datetime | None = failure["started_at"]
    text = headline_of(failure)
    if start is None or start > end:
        return TimelineMark("failed", text, place(end), 0)
    text = f"{text} after {lasted((end - start).total_seconds())}"
    return TimelineMark("failed", text, place(start), place(end) - place(start))


def headline_of(failure: Mapping[str, Any]) -> str:
    """The words of a plain failure document: an attempt that failed, or a wait."""
    begun = failure["worker"] is not None or failure["started_at"] is not None
    return headline(failure["kind"], failure["attempt"], begun=begun)


def _last_attempt(
    job: Mapping[str, Any], place: Callable[[datetime], int], now: datetime
) -> TimelineMark:
    start, end = place(job["started_at"]), place(job["finished_at"] or now)
    text = f"attempt {job['attempt']}: {job['state']}"
    return TimelineMark(job["state"], text, start, max(end - start, 0))


def _seen(one: TimelineMark) -> TimelineMark:
    width = max(one.width, _NARROWEST)
    return TimelineMark(one.kind, one.text, min(one.x, SCALE - width), width)
