"""Rendering: pages of plain documents, by templates that escape whatever they are given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from shlex import quote
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from offpath.jobs.schedules.times import explained
from offpath.model.schedule import Timing
from offpath.operating.documents.schedules import in_words
from offpath.operating.targets import JobsTarget
from offpath.operating.times import ago, short
from offpath.operating.verbs import VERBS
from offpath.web.console.charts import charts_of, moment_of, pace
from offpath.web.console.graph_picture import picture_of
from offpath.web.console.lengths import lasted
from offpath.web.console.links import around, links_of
from offpath.web.console.runbooks import runbook_of_check
from offpath.web.console.timeline import headline_of, timeline_of

_STATIC: Final = files("offpath.web.console") / "static"
_KINDS: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_MINUTE: Final = 60.0
_LONGEST: Final = 65_536
"""Characters of a value on a page."""
_MIDDLE: Final = 13
"""Characters of an id that is cut in its middle."""
SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "blocked": ("○", "waiting"),
    "queued": ("◐", "waiting"),
    "running": ("●", "running"),
    "succeeded": ("✔", "succeeded"),
    "dead": ("✖", "failed"),
    "cancelled": ("⊘", "ended"),
    "live": ("●", "running"),
    "late": ("▲", "paused"),
    "gone": ("⊘", "ended"),
    "healthy": ("✔", "succeeded"),
    "starting": ("◐", "waiting"),
    "unhealthy": ("✖", "failed"),
    "on": ("●", "ended"),
    "paused": ("‖", "paused"),
    "closed": ("‖", "paused"),
    "ended": ("⊘", "ended"),
    "open": ("●", "running"),
    "closing": ("‖", "paused"),
    "done": ("✔", "succeeded"),
    "failed": ("✖", "failed"),
    "fired": ("✔", "succeeded"),
    "triggered": ("✔", "succeeded"),
    "skipped": ("⊘", "ended"),
    "missed": ("✖", "failed"),
    "stopped": ("⊘", "ended"),
    "pending": ("◐", "waiting"),
    "enabled": ("●", "running"),
    "disabled": ("✖", "failed"),
    "holds": ("✔", "succeeded"),
    "fails": ("✖", "failed"),
    "sent": ("✔", "succeeded"),
    "dry": ("◌", "paused"),
    "unsatisfiable": ("✖", "failed"),
    "expired": ("✖", "failed"),
    "timed": ("✖", "failed"),
    "unknown": ("·", "ended"),
    "delivered": ("✔", "succeeded"),
    "refused": ("✖", "failed"),
    "later": ("◐", "paused"),
    "reserved": ("◐", "waiting"),
    "submitted": ("●", "running"),
    "settled": ("✔", "succeeded"),
    "active": ("●", "running"),
    "lapsed": ("⊘", "ended"),
    "canceled": ("⊘", "ended"),
    "clean": ("✔", "succeeded"),
    "empty": ("✔", "ended"),
    "degraded": ("▲", "paused"),
    "problem": ("✖", "failed"),
    "warning": ("▲", "waiting"),
    "fine": ("✔", "succeeded"),
}
"""The sign and the colour of a state, by its first word: never the colour alone."""


class Pages:
    """The templates, and what is the same on every page."""

    def __init__(self, *, title: str, accent: str | None, refresh: float) -> None:
        self._templates = Environment(
            loader=PackageLoader("offpath.web.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            ago=_ago,
            around=around,
            clock=_clock,
            exact=_exact,
            exact_micros=_exact_micros,
            items_by=_items_by,
            headline=headline_of,
            json=_json,
            links_of=links_of,
            long=lambda value: len(_whole(value)) > _LONGEST,
            middle=_middle,
            moment=moment_of,
            number=_number,
            picture=picture_of,
            timeline=timeline_of,
            lasted=lasted,
            charts=charts_of,
            pace=pace,
            quoted=lambda text: quote(str(text)),
            seconds=_seconds,
            sign=lambda state: _sign(state)[0],
            timing=_timing,
            explained=explained,
            until=_until,
            in_zone=_in_zone,
            tone=lambda state: _sign(state)[1],
            without=lambda values, name: {k: v for k, v in values.items() if k != name},
        )
        self._templates.globals.update(
            title=title,
            accent=accent,
            refresh=refresh,
            verbs_for=_verbs_for,
            known_verbs=VERBS,
            runbook_of_check=runbook_of_check,
            asset=lambda name: f"/assets/{name}?{fingerprint(name)}",
        )

    def add_templates(self, packages: Iterable[str | None]) -> None:
        """Look for templates in these packages, too."""
        more = [PackageLoader(one) for one in dict.fromkeys(packages) if one is not None]
        if more:
            own = PackageLoader("offpath.web.console")
            self._templates.loader = ChoiceLoader([own, *more])

    def render(self, template: str, **values: object) -> str:
        """A page."""
        now = datetime.now(UTC)
        return self._templates.get_template(template).render(now=now, **values)


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content of a file that pages refer to, and its kind; None for another name."""
    kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
    known = {one.name for one in _STATIC.iterdir()}
    return None if kind is None or name not in known else ((_STATIC / name).read_bytes(), kind)


@cache
def fingerprint(name: str) -> str:
    """The mark of a file's content, by which a browser may keep it for a year."""
    found = asset(name)
    return hashlib.sha256(found[0] if found else b"").hexdigest()[:12]


def _ago(moment: datetime | None, now: datetime) -> str:
    return "–" if moment is None else ago(moment, now)


def _clock(moment: datetime | None) -> str:
    return "–" if moment is None else moment.astimezone(UTC).strftime("%H:%M:%S")


def _until(moment: datetime, now: datetime) -> str:
    """A time to come in UTC: its hour where it is near, otherwise its day, too."""
    near = abs(moment - now) < timedelta(hours=12)
    return moment.astimezone(UTC).strftime("%H:%M" if near else "%d %b %H:%M")


def _exact(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _exact_micros(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _in_zone(moment: datetime, zone: str) -> str:
    return moment.astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")


def _verbs_for(states: Sequence[str]) -> list[tuple[str, str]]:
    """The verbs that jobs in these states allow, the name and the words; any state: all."""
    wanted = set(states)
    found = [one for one in VERBS.values() if one.target is JobsTarget]
    return [(one.name, one.words) for one in found if not wanted or one.states & wanted]


def _items_by(items: Iterable[Mapping[str, Any]], name: str) -> dict[Any, Mapping[str, Any]]:
    """Items of a list, by one of their fields."""
    return {one[name]: one for one in items}


def _seconds(value: float | None) -> str:
    return "–" if value is None else short(timedelta(seconds=value))


def _timing(timing: Mapping[str, Any]) -> str:
    return in_words(msgspec.convert(timing, Timing))


def _number(value: int) -> str:
    return f"{value:,}"


def _middle(text: str) -> str:
    return text if len(text) <= _MIDDLE else f"{text[:8]}…{text[-4:]}"


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON
    encoded = _whole(value)
    if len(encoded) <= _LONGEST:
        return encoded
    return f"{encoded[:_LONGEST]}\n… {len(encoded) - _LONGEST:,} more characters"


def _whole(value: Any) -> str:  # noqa: ANN401 - any JSON
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _sign(state: str) -> tuple[str, str]:
    return SIGNS.get(state.split(" ", 1)[0], ("·", "ended"))
