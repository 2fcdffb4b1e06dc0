"""Archives of a whole economy, by its own door."""

from __future__ import annotations

from pathlib import Path

import pytest

from offpath.economy import EconomyConfigInvalid, archive_postings, prove_archives, seal_checkpoint
from offpath.economy.testing import TestSigner
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import Marketplace, committed


@pytest.mark.parametrize("gone", [0, 1])
async def test_an_economy_goes_on_from_its_archives(
    open_market: Opens, tmp_path: Path, gone: int
) -> None:
    market = await open_market(signer=TestSigner())
    paths = [tmp_path / f"{one}.gz" for one in range(3)]
    for at, path in enumerate(paths):
        committed(await market.top_up(f"user{at}", "90.00"))
        assert (await seal_checkpoint(market.economy)).sealed
        made = await archive_postings(market.economy, path, after=paths[at - 1] if at else None)
        assert (made.holds, made.postings) == (True, 2)
    committed(await market.top_up("late", "10.00"))
    found = await prove_archives(market.economy, paths)
    assert found.holds
    assert found.ledger is not None
    assert found.ledger.postings == 2
    without = [one for at, one in enumerate(paths) if at != gone]
    found = await prove_archives(market.economy, without)
    assert found.holds is (gone == 0)
    assert [one.problems for one in found.archives] == [(), () if gone == 0 else ("gap",)]


async def test_a_file_that_is_empty_proves_nothing(open_market: Opens, tmp_path: Path) -> None:
    market = await open_market(signer=TestSigner())
    (tmp_path / "a.gz").write_bytes(b"")
    found = await prove_archives(market.economy, [tmp_path / "a.gz"])
    assert (found.holds, found.ledger, found.archives[0].problems) == (False, None, ("cut",))


async def test_without_a_signer_there_are_no_archives(market: Marketplace, tmp_path: Path) -> None:
    with pytest.raises(EconomyConfigInvalid, match="archives are signed"):
        await archive_postings(market.economy, tmp_path / "a.gz")
    with pytest.raises(EconomyConfigInvalid, match="archives are signed"):
        await prove_archives(market.economy, [])
