"""Readings of settlement runs: the kinds of an app, and how the last runs went."""

from __future__ import annotations

from typing import Final

from offpath.app import App
from offpath.operating import settlement_views
from offpath.operating.documents.settlements import SettlementList
from offpath.web.console.document_row import Asking, DocumentReading


async def _settlements(app: App, asking: Asking) -> SettlementList:
    kinds = () if asking.home is None else tuple(asking.home.settlements.kinds())
    return await settlement_views.settlements(app, kinds)


SETTLEMENT_READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="settlements",
        path="/settlements",
        summary="Settlement runs: the kinds, and the last runs with their counts.",
        document=SettlementList,
        read=_settlements,
    ),
)
