"""``offpath backends``: the features that each backend has, and how durable the one in force is."""

from __future__ import annotations

import asyncio

import click

from offpath.app import App
from offpath.cli.apps import store_settings
from offpath.cli.frame import options, place_options, plain_command
from offpath.cli.values import Shown, Table
from offpath.config import other_backends
from offpath.model.redact import redact_url
from offpath.store.capabilities import Capabilities
from offpath.store.offered import MEANINGS, OFFERED, table


@click.command()
@options(*place_options)
@plain_command
def backends(of_app: str | None, url: str | None) -> Shown:
    r"""List which backend has which feature.

    Opens the store in force, and says how durable it is.

    \b
    offpath backends --url redis://localhost
    """
    settings = store_settings(url, of_app)
    mine = asyncio.run(_capabilities(App(settings=settings, auto_start=False)))
    others = [] if mine.name in OFFERED else [mine]
    headings, *rows = table(others)
    document = {
        "url": redact_url(settings.url),
        "backend": mine.name,
        "durability": mine.durability.value,
        "features": [dict(zip(headings, row, strict=True)) for row in rows],
        "installed": sorted(other_backends()),
    }
    said = f"{mine.name}: {MEANINGS[mine.durability]}"
    return Shown(document, [Table(headings, rows), said])


async def _capabilities(app: App) -> Capabilities:
    """The abilities of the store; those of a server are known when it is open."""
    async with app:
        return app.store().capabilities
