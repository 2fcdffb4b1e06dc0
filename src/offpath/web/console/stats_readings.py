"""The stats of a page, in the range that its query asks for."""

from __future__ import annotations

from offpath.app import App
from offpath.operating import stats_views
from offpath.operating.stats_views import StatChoice, StatsDocument
from offpath.web.console.document_row import Asking


async def stats_of(app: App, asking: Asking, only: StatChoice) -> StatsDocument:
    """The stats of one part of the work, which are a part of its page."""
    within = asking.query.one("range")
    return await asking.panels.read(
        stats_views.stats(app, within=within, only=only, compared=asking.query.one("compare")),
        stats_views.unread(app, within=within, only=only),
        "stats",
    )
