"""The pages that wings add to the console: readings, entries of the menu, and templates.

A database has those of the wings that its app holds. A wing that is made after the dashboard is not
seen by it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from offpath.app import App
from offpath.runtime.wings import WINGS
from offpath.web.console.document_row import DocumentReading
from offpath.web.console.settlement_readings import SETTLEMENT_READINGS

MenuEntries = tuple[tuple[str, str, str], ...]
"""The name, the path and the words of each page."""
HEADING: Final = "Money"


class WingPages(Struct, frozen=True, kw_only=True):
    """The pages of a wing."""

    menu: MenuEntries
    readings: tuple[DocumentReading, ...]
    package: str | None = None
    """The package in whose folder ``templates`` its pages are; None: among the console's own."""


SETTLEMENTS: Final = WingPages(
    menu=(("settlements", "/settlements", "Settlement runs"),), readings=SETTLEMENT_READINGS
)
"""The pages of an app that defines settlement runs."""


def pages_for(app: App | None) -> tuple[WingPages, ...]:
    """The pages of the wings of an app; of a database that is given by its URL: none."""
    if app is None:
        return ()
    found: list[WingPages] = [wing.pages() for wing in WINGS if wing.holds(app)]
    if found or len(app.settlements):
        found.append(SETTLEMENTS)
    return tuple(found)


def menu_of(pages: tuple[WingPages, ...]) -> tuple[tuple[str, MenuEntries], ...]:
    """The section of the menu that these pages make."""
    entries = tuple(entry for one in pages for entry in one.menu)
    return ((HEADING, entries),) if entries else ()
