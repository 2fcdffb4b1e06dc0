"""Times in words: how long ago, how long, when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """The time since a moment, or until it, in one unit."""
    if moment is None:
        return ""
    past = (now or datetime.now(UTC)) - moment
    span = short(abs(past))
    return f"in {span}" if past < timedelta(0) else f"{span} ago"


def short(span: timedelta) -> str:
    """A duration in its largest unit."""
    seconds = span.total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def when(moment: datetime | None) -> str:
    """A time as ISO 8601 in UTC, or a dash."""
    return "-" if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
