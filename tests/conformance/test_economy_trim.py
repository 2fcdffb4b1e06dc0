"""An economy of which the oldest postings were archived and removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from offpath.economy import (
    Archived,
    Clawback,
    Reverse,
    archive_postings,
    credits,
    prove_archives,
    seal_checkpoint,
    trim_postings,
    verify_checkpoint,
)
from offpath.economy.ledger.audit import NewRecord, Phase, record, trail
from offpath.economy.operating import views
from offpath.economy.testing import TestSigner
from offpath.errors import InvalidArgument, NotFound
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.trims import Trim
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_tamper import tamper
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed

pytestmark = pytest.mark.needs("ledger")

YEAR = 366 * 86_400


@pytest.fixture
async def market(store: Store, clock: ManualClock) -> Marketplace:
    """A marketplace with something of each kind: open, ended, owed and sold."""
    clock.set(START)
    made = Marketplace(store=store, clock=clock, signer=TestSigner())
    committed(await made.top_up("ann", "90.00", key="first"))
    committed(await made.spend("ann", "10.00", order_id="o1"))
    await made.settle(await made.payout("sam", 70, submitted=True))
    committed(await made.subscribe("ann", "5.00", period=2.0 * YEAR))
    committed(await made.promo("joy", "3.00", ms=4 * YEAR * 1000))
    owing = Clawback(key="owing", actor=OPS, user="dan", amount=credits(3))
    committed(await made.economy.submit(owing))
    told = NewRecord(phase=Phase.DETECTED, subject="x", detail="d", episode="e", by="rule", turn=0)
    assert await record(store, told, made.economy.new_id())
    return made


async def removed(market: Marketplace, path: Path) -> Trim:
    """All of the first year is archived and removed."""
    assert (await seal_checkpoint(market.economy)).sealed
    assert (await archive_postings(market.economy, path)).holds
    market.clock.advance(YEAR)
    committed(await market.top_up("eve", "20.00"))
    return await trim_postings(market.economy, path)


async def holds(market: Marketplace) -> None:
    """Each proof of the economy."""
    for full in (False, True):
        proof = await market.economy.prove(full=full)
        assert (proof.wrong, proof.broken, proof.drift) == ((), None, ())
        assert proof.holds
    assert not (await verify_checkpoint(market.economy)).mismatch


async def test_what_is_open_goes_on_by_the_postings_that_were_kept(
    market: Marketplace, store: Store, tmp_path: Path
) -> None:
    before = await store.ledger_counts()
    (club,) = await market.economy.read.subscriptions("ann")
    made = await removed(market, tmp_path / "1.gz")
    after = await store.ledger_counts()
    assert made.postings > 0
    assert after.postings == before.postings + 2 - made.postings
    await holds(market)
    kept = await store.ledger_retired(trim=1)
    facts = {one.posting.facts["kind"] for one in kept if one.posting is not None}
    assert facts == {"subscribe", "grantPromo"}
    market.clock.advance(2 * YEAR)
    committed(await market.top_up("ann", "90.00"))
    await market.economy.run_sweeps()
    (renewed,) = await market.economy.read.subscriptions("ann")
    assert renewed.number > club.number
    assert await market.balance("joy:promo") == 300
    market.clock.advance(2 * YEAR)
    await market.economy.run_sweeps()
    assert await market.balance("joy:promo") == 0
    await holds(market)


async def test_what_is_undone_of_a_removed_posting_names_its_archive(
    market: Marketplace, tmp_path: Path
) -> None:
    bought = await market.economy.read.receipt("first")
    assert bought is not None
    posting = str(bought.receipt.id)
    await removed(market, tmp_path / "1.gz")
    undo = Reverse(key="undo", actor=OPS, posting_id=posting, reason="x")
    with pytest.raises(Archived, match=r"it is in 1\.gz"):
        await market.economy.submit(undo)
    with pytest.raises(Archived, match=r"it is in 1\.gz"):
        await market.refund("o1")
    with pytest.raises(Archived, match=r"it is in 1\.gz"):
        await market.economy.read.posting(posting)
    with pytest.raises(NotFound, match=r"it is in 1\.gz"):
        await views.posting(market.app, posting)
    repeated = await market.top_up("ann", "90.00", key="first")
    assert type(repeated).__name__ == "Duplicate"
    await holds(market)


async def test_statements_balances_and_the_audit_stay(
    market: Marketplace, store: Store, tmp_path: Path
) -> None:
    before = await market.economy.read.balances("ann")
    whole = await market.economy.read.statement("ann:spendable")
    assert await market.economy.read.archived("ann:spendable") is None
    await removed(market, tmp_path / "1.gz")
    assert await market.economy.read.balances("ann") == before
    left = await market.economy.read.statement("ann:spendable")
    assert left == whole[:1]
    gone = await market.economy.read.archived("ann:spendable")
    assert gone is not None
    assert (gone.number, gone.file) == (whole[0].number, "1.gz")
    shown = await views.account(market.app, "ann:spendable")
    assert (shown.archived, len(shown.items), shown.next) == ("1.gz", 1, None)
    assert (await views.account(market.app, "eve:spendable")).archived is None
    assert [one.subject for one in await trail(store)] == ["x"]
    told = NewRecord(phase=Phase.ENDED, subject="x", detail="d", episode="e", by="olivia")
    assert await record(store, told, market.economy.new_id())
    assert [one.number for one in await trail(store)] == [2, 1]
    await holds(market)


async def test_nothing_is_removed_while_an_older_payout_is_open(
    market: Marketplace, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "1.gz"
    late = await market.payout("sel", 70, submitted=True)
    with pytest.raises(InvalidArgument, match=f"the payout {late} was asked for before .* is open"):
        await removed(market, path)
    assert await store.ledger_trims() == []
    committed(await market.settle(late))
    await trim_postings(market.economy, path)
    await holds(market)
    assert (await prove_archives(market.economy, [path])).holds


async def test_a_payout_whose_row_was_altered_to_have_ended_is_owed_all_the_same(
    market: Marketplace, store: Store, backend: Backend, tmp_path: Path
) -> None:
    late = await market.payout("sel", 70, submitted=True)
    owed = (await store.ledger_totals()).owed
    tamper(store, backend).change_side("payout", late, state="FAILED", due_at=None)
    with pytest.raises(ChainBroken, match=r"open payouts cost USD:0\.00 by their rows and USD:"):
        await removed(market, tmp_path / "1.gz")
    assert await store.ledger_trims() == []
    assert (await store.ledger_totals()).owed == owed > 0


async def test_a_trim_that_is_not_finished_after_an_hour_is_told_until_it_is(
    market: Marketplace, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_step(_self: Store, *, limit: int) -> int:
        return 0

    async def told(hours: float) -> list[str]:
        market.clock.advance(hours * 3_600)
        await market.economy.run_sweeps()
        return [one.text for one in await store.findings() if one.name == "economy.trim"]

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "trim_postings", no_step)
        made = await removed(market, tmp_path / "1.gz")
    assert not made.finished
    assert await told(0.9) == []
    (text,) = await told(0.2)
    assert (
        f"the trim of 1.gz has not moved for over an hour and is at posting 0 of {made.posting}"
        in text
    )
    assert await store.trim_postings(limit=1) == 1
    assert await told(0.9) == []  # it moved since
    assert len(await told(0.2)) == 1
    assert (await trim_postings(market.economy, tmp_path / "1.gz")).finished
    assert await told(0.1) == []


async def test_postings_are_kept_for_as_long_as_decisions_look_back(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    market = Marketplace(store=store, clock=clock, signer=TestSigner(), maturity_card=30 * 86_400.0)
    committed(await market.top_up("ann", "90.00"))
    assert (await seal_checkpoint(market.economy)).sealed
    path = tmp_path / "1.gz"
    await archive_postings(market.economy, path)
    clock.advance(40 * 86_400)
    with pytest.raises(InvalidArgument, match="keep is at least 2,592,000 seconds"):
        await trim_postings(market.economy, path, keep=timedelta(days=1))
    with pytest.raises(InvalidArgument, match="is not old enough"):
        await trim_postings(market.economy, path)
    assert (await trim_postings(market.economy, path, keep=timedelta(days=31))).finished


async def test_a_row_whose_posting_was_removed_cannot_be_opened_again(
    market: Marketplace, store: Store, backend: Backend, tmp_path: Path
) -> None:
    await removed(market, tmp_path / "1.gz")
    (paid,) = await market.economy.read.payouts("sam")
    tamper(store, backend).change_side("payout", paid.id, state="SUBMITTED", due_at=1)
    proof = await market.economy.prove()
    assert any("the posting that made it was archived" in line for line in proof.wrong)
    with pytest.raises((ChainBroken, Archived)):
        await market.settle(paid.id)
