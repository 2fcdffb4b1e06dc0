"""Readings of what runs the service: its sweeps, its settings, versions and schema."""

from __future__ import annotations

import asyncio
from typing import Final

from offpath.app import App
from offpath.operating import checkup, code_views, run_views
from offpath.operating.documents.checkup import CheckupDocument, describe
from offpath.operating.documents.configuration import ConfigurationDocument
from offpath.operating.documents.runs import RunPage
from offpath.operating.documents.sweeps import SweepList
from offpath.web.console.document_row import Asking, DocumentReading


async def _sweeps(app: App, asking: Asking) -> SweepList:
    return await code_views.sweeps(app, asking.home)


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
        summary="Sweeps: who drives each, and how it goes.",
        document=SweepList,
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
