"""Dead rows: reported when they outnumber the living, and when nobody removes them."""

from __future__ import annotations

import pytest

from offpath.store.postgres.diagnosis import MANY_DEAD, _dead_rows
from offpath.store.protocol import Finding, Level

from .conftest import Ask, Opened


@pytest.mark.parametrize(
    ("live", "dead", "level"),
    [
        (0, 0, Level.FINE),
        (10, MANY_DEAD - 1, Level.FINE),
        (10, MANY_DEAD, Level.WARNING),
        (5_000_000, 100_000, Level.FINE),
        (1_000_000, 1_000_001, Level.WARNING),
    ],
)
def test_dead_rows_are_told_of_when_they_outnumber_the_living(
    live: int, dead: int, level: Level
) -> None:
    finding = _dead_rows([(live, dead)], "offpath")
    assert finding.level is level
    assert finding.message.startswith(f"{dead} dead beside {live} live ones")
    assert ("run: vacuum" in finding.message) is (level is Level.WARNING)


async def _vacuum(opened: Opened) -> Finding:
    return next(one for one in await (await opened()).diagnose() if one.name == "vacuum")


async def test_it_is_told_that_nothing_vacuums_the_server(opened: Opened, ask: Ask) -> None:
    on = ask("show autovacuum") == [("on",)]
    assert (await _vacuum(opened)).level is (Level.FINE if on else Level.WARNING)


async def test_it_is_told_that_nothing_vacuums_the_table(opened: Opened, ask: Ask) -> None:
    ask("alter table offpath.job set (autovacuum_enabled = off)")
    finding = await _vacuum(opened)
    assert finding.level is Level.WARNING
    assert "autovacuum is off" in finding.message
