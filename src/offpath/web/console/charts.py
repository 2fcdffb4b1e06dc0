"""Charts: lines over a range of time, as places in a picture that needs no script.

Pure. A chart has one axis, which begins at zero. Where nobody told anything there is a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from offpath.web.console.lengths import lasted, rounded

WIDTH: Final = 600
HEIGHT: Final = 96
_TOP: Final = 4
"""Room above the highest point, so that its line is seen whole."""
_LABEL: Final = 28
"""The height of a label of two lines: the word, and the value."""
Value = float | None


class ChartLine(Struct, frozen=True):
    """One line: its words, its last value in words, and its parts as paths of SVG."""

    words: str
    last: str
    paths: tuple[str, ...]
    style: str
    """The name of how it is drawn: its number, or ``old`` for that of a day before."""
    told: tuple[str, ...]
    """Its value at each point, in words."""
    y: float = 0.0
    """The place of its label beside the chart: where it ends, or as near as others leave room."""


class ChartSlice(Struct, frozen=True):
    """The room of one point, with what it says."""

    x: float
    width: float
    text: str


class LineChart(Struct, frozen=True):
    """A chart: its words, the end of its axis, its lines, and a text for each point."""

    name: str
    words: str
    most: str
    lines: tuple[ChartLine, ...]
    slices: tuple[ChartSlice, ...]
    labelled: bool
    """True if its lines are named beside it: one alone is what the chart is called."""

    @property
    def empty(self) -> bool:
        """True if nobody told anything in the whole range."""
        return not any(line.paths for line in self.lines)


def charts_of(document: Mapping[str, Any]) -> tuple[LineChart, ...]:
    """The charts of a plain document of stats: throughput, waits, what is due, and failures."""
    points, step = document["points"], document["step"]
    old, old_step = document["yesterday"], document["yesterday_step"]

    def rate(name: str) -> list[Value]:
        return _rates(points, name, step)

    def plain(name: str) -> list[Value]:
        return [one[name] for one in points]

    def before(name: str) -> list[Value]:
        return [one[name] for one in old]

    times = [one["at"] for one in points]
    if document.get("stream") is not None:
        ways = {"delivered": rate("delivered"), "died": rate("undelivered")}
        gone = _rates(old, "delivered", old_step)
        sent = _chart("ended", "Delivered a second", times, _rate, ways, gone)
        due = {"due": plain("waiting")}
        waiting = _chart("due", "Due now", times, _count, due, before("waiting"))
        return sent, _oldest(times, points, before("oldest_waiting")), waiting
    if document.get("router") is not None:
        passed = {"passed": rate("passed")}
        gone = _rates(old, "passed", old_step)
        sent = _chart("ended", "Passed a second", times, _rate, passed, gone)
        return sent, _oldest(times, points, before("oldest_waiting"))
    ended = {"ended": rate("ended"), "arrived": rate("arrived")}
    due = {"due": plain("ready"), "running": plain("running")}
    failed = {"failed": [_failed(one) for one in points]}
    wait = {"wait": plain("wait_p95")}
    gone = _rates(old, "ended", old_step)
    lost = [_failed(one) for one in old]
    flow = _chart("ended", "Ended a second", times, _rate, ended, gone)
    waits = _chart("wait", "Wait, 95 of 100 within", times, lasted, wait, before("wait_p95"))
    failures = _chart("failed", "Attempts that failed", times, _share, failed, lost)
    if document.get("task") is not None:  # what is due is counted by queue
        return flow, waits, failures
    return flow, waits, _chart("due", "Due now", times, _count, due, before("ready")), failures


def _rates(points: Sequence[Mapping[str, Any]], name: str, step: int) -> list[Value]:
    return [None if one[name] is None else one[name] / step for one in points]


def _oldest(
    times: Sequence[datetime], points: Sequence[Mapping[str, Any]], old: Sequence[Value]
) -> LineChart:
    values = {"oldest": [one["oldest_waiting"] for one in points]}
    return _chart("wait", "The oldest has waited", times, lasted, values, old)


def _failed(point: Mapping[str, Any]) -> Value:
    """The share of failed attempts; None where none ended."""
    if point["failed"] is None:
        return None
    ended = point["ended"] + point["failed"] - point["dead"]
    return min(point["failed"] / ended, 1.0) if ended else None


def _chart(
    name: str,
    words: str,
    times: Sequence[datetime],
    told: Callable[[float], str],
    values: Mapping[str, Sequence[Value]],
    old: Sequence[Value] = (),
) -> LineChart:
    several = (*values.values(), old)
    most = max((one for line in several for one in line if one is not None), default=0.0)
    lines = [
        _line(line, numbers, most, told, str(number), len(times))
        for number, (line, numbers) in enumerate(values.items(), 1)
    ]
    if old:
        lines.append(_line("yesterday", old, most, told, "old", len(times)))
    labelled = len(lines) > 1
    lines = _labelled(lines, _LABEL if labelled else _LABEL / 2)
    width = WIDTH / max(len(times), 1)
    slices = tuple(
        ChartSlice(round(place * width, 2), round(width, 2), _text(at, place, told, values))
        for place, at in enumerate(times)
    )
    return LineChart(name, words, told(most) if most else "", tuple(lines), slices, labelled)


def _line(
    words: str,
    values: Sequence[Value],
    most: float,
    told: Callable[[float], str],
    style: str,
    points: int,
) -> ChartLine:
    """A line. One of fewer points than the chart has is read at the point that is nearest."""
    near = [values[place * len(values) // points] for place in range(points)] if values else []
    known = [one for one in values if one is not None]
    return ChartLine(
        words,
        told(known[-1]) if known else "–",
        tuple(_paths(values, most)),
        style,
        tuple("–" if one is None else told(one) for one in near),
        _place(known[-1] if known else 0.0, most),
    )


def _place(value: float, most: float) -> float:
    """The place of a value, from the top."""
    return HEIGHT - ((HEIGHT - _TOP) * value / most if most else 0.0)


def _labelled(lines: Sequence[ChartLine], height: float) -> list[ChartLine]:
    """The lines with their labels, none over another: the highest first, and all within."""
    order = sorted(lines, key=lambda one: one.y)
    top, places = 0.0, {}
    for number, one in enumerate(order):
        below = height * (len(order) - number)
        place = max(top, min(one.y - height / 2, HEIGHT - below))
        places[one.style] = round(place, 1)
        top = place + height
    return [replace(one, y=places[one.style]) for one in lines]


def _paths(values: Sequence[Value], most: float) -> Iterator[str]:
    """The parts of a line, each from a gap to the next."""
    width = WIDTH / max(len(values), 1)
    part: list[str] = []
    for place, value in enumerate([*values, None]):
        if value is not None:
            x, y = (place + 0.5) * width, _place(value, most)
            part.append(f"{'L' if part else 'M'}{x:.1f} {y:.1f}")
        elif part:
            # a point alone is a short line, for one without a length is not drawn
            yield " ".join(part) if len(part) > 1 else f"{part[0]} h2"
            part = []


def _text(
    at: datetime,
    place: int,
    told: Callable[[float], str],
    values: Mapping[str, Sequence[Value]],
) -> str:
    found = ", ".join(
        f"{name} {'–' if line[place] is None else told(line[place] or 0.0)}"
        for name, line in values.items()
    )
    return f"{moment_of(at)}: {found}"


def moment_of(at: datetime) -> str:
    """The time of a point."""
    return f"{at.astimezone(UTC):%d %b %H:%M:%S}"


def pace(value: float) -> str:
    """So many a second."""
    return "0/s" if not value else _rate(value)


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= _TENS else f"{rounded(value, 2)}/s"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{rounded(100 * value, 2)} %"


_TENS: Final = 10
