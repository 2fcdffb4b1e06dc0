"""Readings of what runs the service: its sweeps, its settings, versions and schema."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from offpath.app import App
from offpath.model.run import RunKind
from offpath.operating import checkup, code_views, run_views
from offpath.operating.documents.checkup import CheckupDocument, describe
from offpath.operating.documents.configuration import ConfigurationDocument
from offpath.operating.documents.fields import filled
from offpath.operating.documents.runs import RunDocument, RunPage
from offpath.operating.documents.sweeps import SweepDocument
from offpath.web.console.document_row import Asking, DocumentReading


class SweepShown(SweepDocument, frozen=True, kw_only=True):
    """A sweep with what it found last."""

    found: RunDocument | None
    """Its newest kept run: a pass that found something; None of the engine's own, of which none is
    kept.
    """


class SweepsShown(Struct, frozen=True, kw_only=True):
    """The sweeps, the engine's own first, then in the order of their registration."""

    items: tuple[SweepShown, ...]


async def _sweeps(app: App, asking: Asking) -> SweepsShown:
    known = (await code_views.sweeps(app, asking.home)).items
    found = await asyncio.gather(*(_found(app, one) for one in known))
    shown = zip(known, found, strict=True)
    return SweepsShown(items=tuple(filled(SweepShown, one, found=last) for one, last in shown))


async def _found(app: App, sweep: SweepDocument) -> RunDocument | None:
    if sweep.own:
        return None
    kept = await run_views.runs(app, kind=RunKind.SWEEP, name=sweep.name, limit=1)
    return next(iter(kept.items), None)


async def _doctor(app: App, _: Asking) -> CheckupDocument:
    findings, now = await asyncio.gather(checkup.look(app), app.store().ping())
    return describe(findings, now)


async def _config(app: App, _: Asking) -> ConfigurationDocument:
    return await code_views.config(app)


async def _runs(app: App, asking: Asking) -> RunPage:
    query = asking.query
    return await run_views.runs(
        app,
        kind=query.one("kind"),
        name=query.one("name"),
        limit=query.limit(),
        after=query.one("after"),
    )


SERVICE_READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="sweeps",
        path="/sweeps",
        summary="Sweeps: who drives each, how it goes, and what it found last.",
        document=SweepsShown,
        read=_sweeps,
        shared=True,
    ),
    DocumentReading(
        name="runs",
        path="/runs",
        summary="Runs: passes of sweeps that found something, and settlement runs, newest first.",
        document=RunPage,
        read=_runs,
        names=("kind", "name", "after", "limit"),
    ),
    DocumentReading(
        name="doctor",
        path="/doctor",
        summary="The last checkup of the store, made anew each minute while somebody asks.",
        document=CheckupDocument,
        read=_doctor,
        behind=60.0,
    ),
    DocumentReading(
        name="config",
        path="/config",
        summary="The settings in force without secrets, versions, and the steps of the schema.",
        document=ConfigurationDocument,
        read=_config,
        shared=True,
    ),
)
