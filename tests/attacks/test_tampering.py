"""The page of tampering says what a run finds."""

from __future__ import annotations

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.attacks.tampering import PAGE, built, tampered
from tests.conformance.backends import Backend


@pytest.mark.timeout(300)
async def test_the_page_of_tampering_is_what_a_run_finds(
    store: Store, backend: Backend, clock: ManualClock
) -> None:
    if backend.name == "memory":
        pytest.skip("nobody else has its rows")
    await built(store, clock)
    found = await tampered(store, backend)
    place = 1 if backend.name == "sqlite" else 3
    told = {}
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 5 and cells[0] != "row: column" and cells[place] not in {"–", "---"}:
            told[cells[0]] = (cells[place], cells[place + 1])
    assert told == found
    assert len(found) > 100
