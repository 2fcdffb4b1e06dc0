"""A store in memory with one of everything, made once for the module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import offpath
from offpath.web.console import places
from tests.browser.scene import fill, make_app
from tests.unit.web.dashboard.rig import Site, add_economy, site_of


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is not a database that hangs."""
    monkeypatch.setattr(places, "PATIENCE", 30.0)


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An open app in memory, filled."""
    made = make_app("memory://")
    await fill(made, dead=3, close=False)
    yield made
    await made.close()


@pytest.fixture
def site(app: offpath.App) -> Site:
    """Its dashboard."""
    return site_of(app, redact=("to",))


@pytest.fixture
async def house() -> AsyncIterator[offpath.App]:
    """An open app in memory with an economy and a kind of settlement runs. Nothing happened yet."""
    made = offpath.App("memory://", auto_start=False)
    add_economy(made)
    async with made:
        yield made
