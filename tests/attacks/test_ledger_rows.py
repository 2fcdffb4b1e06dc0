"""Rows beside the postings are hashed by nobody, so nothing is believed of them: D1, D9."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from offpath.economy import Clawback, Commingling, ReversePayout, credits, usd
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_tamper import Tamper, tamper
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed

Attack = Callable[[Tamper, str], None]
REFUSED = "integrity|refused|not removed|append-only|no links|bare"


@pytest.fixture
async def market(store: Store, clock: ManualClock) -> AsyncIterator[Marketplace]:
    """A seller has asked for 70.00 credits, which is 0.35 dollars; all cash is spoken for."""
    clock.set(START)
    made = Marketplace(store=store, clock=clock)
    yield made
    await made.app.close()


@pytest.fixture
def hand(store: Store, backend: Backend) -> Tamper:
    return tamper(store, backend)


def _gone(hand: Tamper, payout: str) -> None:
    hand.remove_side("payout", payout)


def _ended(hand: Tamper, payout: str) -> None:
    hand.change_side("payout", payout, state="FAILED", due_at=None)


def _cheaper(hand: Tamper, payout: str) -> None:
    hand.change_side("payout", payout, amount=1)


ATTACKS: dict[str, Attack] = {"deleted": _gone, "ended": _ended, "repriced": _cheaper}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_a_debt_does_not_vanish_with_its_row(
    market: Marketplace, hand: Tamper, attack: Attack
) -> None:
    payout = await market.payout("sel", 70)
    before = await market.economy.read.position()
    assert before.quotes == 35
    attack(hand, payout)
    assert await market.economy.read.position() == before
    for full in (True, False):
        proof = await market.economy.prove(full=full)
        assert proof.position == before
        assert (proof.rows, proof.holds) == (False, False)
    assert any(payout in line for line in (await market.economy.prove()).wrong)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_a_fee_sweep_leaves_the_sellers_dollars(
    market: Marketplace, hand: Tamper, attack: Attack
) -> None:
    payout = await market.payout("sel", 70)
    # a bank took a part of the cash: that bounds the sweep now, and no longer the revenue
    request = Clawback(key="back", actor=OPS, user="dan", amount=credits(20), dollars=usd(10))
    committed(await market.economy.submit(request))
    most = await _may_take(market)
    assert "CREDIT:10.00" in most
    attack(hand, payout)
    assert await _may_take(market) == most


async def _may_take(market: Marketplace) -> str:
    """The amount that may be taken, as the error says."""
    with pytest.raises(Commingling) as raised:
        await market.economy.sweep_fees("much", credits(1_000_000))
    return str(raised.value)


async def test_honest_rows_agree_with_their_postings(market: Marketplace) -> None:
    await _lively(market)
    proof = await market.economy.prove()
    assert (proof.wrong, proof.rows) == ((), True)
    assert (await market.economy.prove(full=False)).rows


async def _lively(market: Marketplace) -> dict[str, str]:
    """One row of each kind that is proved, payouts in each state."""
    open_, sent = await market.payout("sel", 70), await market.payout("sue", 70, submitted=True)
    paid, back = await market.payout("sam", 70, submitted=True), await market.payout("sid", 70)
    committed(await market.settle(paid))
    committed(await market.economy.submit(_reversal(market, back)))
    committed(await market.top_up("ann", "50.00"))
    grant = committed(await market.promo("ann", "5.00")).id
    sale = committed(await market.spend("ann", "10.00", order_id="o1"))
    committed(await market.spend("ann", "10.00", order_id="o2"))
    committed(await market.refund("o2"))
    subscribed = committed(await market.subscribe("ann", "5.00"))
    unspent = committed(await market.promo("joy", "3.00")).id
    return {
        "unspent": str(unspent),
        "open": open_,
        "sent": sent,
        "paid": paid,
        "back": back,
        "promo": str(grant),
        "sale": "o1",
        "sold": str(sale.id),
        "subscription": str(subscribed.facts["subscription_id"]),
    }


def _reversal(market: Marketplace, payout: str) -> Any:
    return ReversePayout(
        key=market.key(),
        actor=OPS,
        user="sid",
        payout_id=payout,
        reason="closed",
        provider_reported=True,
    )


ALTERED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an end undone": ("payout", "paid", {"state": "SUBMITTED"}),
    "a return undone": ("payout", "back", {"state": "RESERVED"}),
    "a return told as paid": ("payout", "back", {"state": "SETTLED"}),
    "another seller": ("payout", "open", {"owner": "eve"}),
    "another quote of one that was sent": ("payout", "sent", {"amount": 1}),
    "a dearer subscription": ("subscription", "subscription", {"owner": "eve"}),
    "a bigger grant": ("promo", "promo", {"amount": 501}),
    "a grant ended early": ("promo", "unspent", {"state": "REVERSED", "due_at": None}),
    "another buyer": ("sale", "sale", {"owner": "eve"}),
    "another posting": ("sale", "sale", {"anchor": "nothing"}),
}


@pytest.mark.parametrize("altered", ALTERED.values(), ids=ALTERED)
async def test_the_prover_finds_an_altered_row(
    market: Marketplace, hand: Tamper, altered: tuple[str, str, dict[str, Any]]
) -> None:
    rows = await _lively(market)
    kind, name, changes = altered
    hand.change_side(kind, rows[name], **changes)
    proof = await market.economy.prove()
    assert not proof.rows
    assert proof.wrong


@pytest.mark.parametrize("kind", ["payout", "subscription", "promo", "sale"])
async def test_the_prover_misses_a_row_that_is_gone(
    market: Marketplace, hand: Tamper, kind: str
) -> None:
    rows = await _lively(market)
    name = rows["open" if kind == "payout" else kind]
    hand.remove_side(kind, name)
    proof = await market.economy.prove()
    assert any(f"the {kind} {name} is gone" in line for line in proof.wrong)


async def _owes(market: Marketplace) -> None:
    """Dan has spent 2.00 of 5.00 that are clawed back, and owes them."""
    committed(await market.top_up("dan", "5.00"))
    committed(await market.spend("dan", "2.00", order_id="o1"))
    request = Clawback(key="back", actor=OPS, user="dan", amount=credits(5))
    committed(await market.economy.submit(request))
    assert await market.balance("dan:owed") == 200
    assert (await market.economy.prove()).wrong == ()


async def test_the_prover_compares_what_a_user_owes_with_the_postings(
    market: Marketplace, hand: Tamper
) -> None:
    await _owes(market)
    hand.change_account("dan:owed", balance=1)
    wrong = (await market.economy.prove()).wrong
    line = "dan:owed: its row says that CREDIT:0.01 is owed, the postings CREDIT:2.00"
    assert line in wrong


async def test_the_prover_misses_a_debt_that_is_gone(market: Marketplace, hand: Tamper) -> None:
    await _owes(market)
    hand.remove_account("dan:owed")
    proof = await market.economy.prove()
    assert not proof.holds
    if await hand.links("dan:owed"):  # in memory they go with their account
        assert "dan:owed: it is gone, and CREDIT:2.00 is owed by postings" in proof.wrong


async def test_the_prover_compares_a_debt_with_what_its_clawback_sealed(
    market: Marketplace, hand: Tamper
) -> None:
    """All hashes may be made anew by who has the tables: what is told twice must agree."""
    await _owes(market)
    await hand.rewrite("dan:owed", 1, 50)
    proof = await market.economy.prove()
    assert proof.chain_intact
    (line,) = [one for one in proof.wrong if "dan" in one]
    assert line.endswith("it makes dan owe CREDIT:0.50, and says that dan owes CREDIT:2.00")


# -- what a database refuses by itself ----------------------------------------------------------


async def test_rows_beside_the_postings_are_not_removed(
    market: Marketplace, backend: Backend
) -> None:
    if backend.name == "memory":
        return
    await market.payout("sel", 70)
    table = "offpath.ledger_side" if backend.name == "postgres" else "offpath_ledger_side"
    with pytest.raises(Exception, match=REFUSED):
        backend.execute(f"delete from {table}")
    if backend.name == "sqlite":
        columns = (
            "kind, id, owner, state, version, due_at, attempts, amount, anchor, unique_key, "
            "created_at, touched_at, body"
        )
        for how in ("or replace ", "or ignore "):
            with pytest.raises(Exception, match="has this row"):
                backend.execute(
                    f"insert {how}into {table} ({columns}) select {columns} from {table}"
                )
    assert (await market.economy.prove()).rows


TABLES = ("posting", "link", "account", "side", "key", "attempt", "checkpoint", "leaf")


@pytest.mark.parametrize("table", TABLES)
async def test_no_table_of_a_ledger_is_emptied(
    market: Marketplace, backend: Backend, table: str
) -> None:
    if backend.name != "postgres":
        return  # the others have no statement that goes by the triggers of rows
    with pytest.raises(Exception, match=r"TRUNCATE|truncate"):
        backend.execute(f"truncate offpath.ledger_{table} cascade")


async def test_a_posting_comes_with_its_links(market: Marketplace, backend: Backend) -> None:
    if backend.name == "memory":
        return
    payout = await market.payout("sel", 70)
    with pytest.raises(Exception, match=r"no links|has links|without a gap"):
        backend.execute(_bare(backend, payout))


async def test_a_bare_posting_is_counted_and_blocks_no_payout(
    market: Marketplace, hand: Any, backend: Backend
) -> None:
    """With its triggers off, somebody takes the id of a payout's end."""
    if backend.name == "memory":
        return
    payout = await market.payout("sel", 70, submitted=True)
    hand.run(_bare(backend, payout))
    proof = await market.economy.prove()
    assert f"posting {payout}:end: it has no links" in proof.wrong
    assert (await market.economy.read.position()).quotes == 35
    committed(await market.settle(payout))
    assert (await market.economy.prove()).holds


def _bare(backend: Backend, payout: str) -> str:
    if backend.name == "postgres":
        return (
            f"insert into offpath.ledger_posting (id, at, meta) values ('{payout}:end', 0, '{{}}')"
        )
    return (
        "insert into offpath_ledger_posting (seq, id, at, meta) "
        f"select max(seq) + 1, '{payout}:end', 0, '{{}}' from offpath_ledger_posting"
    )
