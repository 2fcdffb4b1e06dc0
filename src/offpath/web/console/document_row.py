"""The rows of the table of readings, and the part of a request that each of them is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from offpath.app import App
from offpath.operating.panels import Panels
from offpath.operating.redaction import Redaction
from offpath.web.console.queries import RequestQuery


class Asking(Struct, frozen=True, kw_only=True):
    """The part of a request that a reading is given."""

    query: RequestQuery
    path: Mapping[str, str]
    seen: Redaction
    panels: Panels
    """The parts of its document: one that takes too long is cut off alone."""
    home: App | None = None
    """The app that the dashboard was given: what only code knows. None for a database's URL."""


class DocumentReading(Struct, frozen=True, kw_only=True):
    """One thing that may be read: its path, its document, and how it is read."""

    name: str
    path: str
    """Below the mount for the page, below ``/api/v1`` for the JSON."""
    summary: str
    document: type[Struct]
    read: Callable[[App, Asking], Awaitable[Struct]]
    names: Sequence[str] = ()
    """The fields that its query may have."""
    shared: bool = False
    """True if it is the same for every viewer: it holds nothing of what jobs were given."""
    behind: float | None = None
    """The seconds for which its answer is kept, where making it takes too long for a request."""
    page: str | None = None
    """Its path as a page, where that is another one."""
    paged: bool = True
    """False: there is its JSON alone, of what stands on another page."""
    parts: Sequence[str] = ()
    """The fields of payload that can be downloaded alone, by whoever may see payloads."""
    within: str | None = None
    """The entry of the menu that it belongs to, where that is another one's."""
