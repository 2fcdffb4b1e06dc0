"""Findings of an economy contain the damage by rule, are written to the audit, and end by an
operator's word; on every store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from offpath.economy import (
    ChainBroken,
    Entry,
    Fund,
    NewPosting,
    Outcome,
    Rejected,
    TopUp,
    check_treasury,
    credits,
    drain_inbox,
    seal_checkpoint,
    settle_due_payouts,
    sweep_fees_due,
    usd,
    verify_checkpoint,
)
from offpath.economy.ledger.audit import ACCOUNT, Phase
from offpath.economy.ledger.levers import Lever, resting
from offpath.economy.ledger.mismatches import MISMATCH
from offpath.economy.sweeps.containment import Containment
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import Contained
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import Receipt
from offpath.model.tally import Tally
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

pytestmark = pytest.mark.needs("ledger")


@pytest.fixture
async def rig(store: Store, clock: ManualClock) -> AsyncIterator[Rig]:
    made = Rig(store=store, clock=clock)
    await made.app.open()
    yield made
    await made.app.close()


async def look(rig: Rig) -> Tally:
    return await Containment(rig).run(None, rig.now, 100)  # type: ignore[arg-type]  # not asked


async def steps(rig: Rig) -> list[tuple[str, str]]:
    return [(one.phase.value, one.subject) for one in reversed(await rig.audit())]


async def stolen(rig: Rig, cents: int = 500) -> None:
    """Dollars that leave the cash by a posting of nobody's operation."""
    entries = (Entry("platform:trust_cash", -cents), Entry("platform:usd_clearing", cents))
    posting = NewPosting(id=rig.key(), entries=entries, meta={"kind": "own"})

    def decide(book: Book) -> Receipt:
        made = book.post(posting)
        return Receipt(id=made.id, postings=(made.id,))

    accounts = frozenset(one.account for one in entries)
    (decided,) = await rig.store.post([LedgerOp(decide=decide, needs=Needs(accounts=accounts))])
    assert decided.error is None


async def breached(rig: Rig) -> None:
    await rig.top_up("ann", "100.00")
    position = (await check_treasury(rig)).position
    assert position is not None
    await stolen(rig, position.held - position.obligations + 40)
    assert (await check_treasury(rig)).breaches


async def test_dollars_that_nothing_explains_stop_payouts_and_fees(rig: Rig) -> None:
    payout = await rig.due_payout()
    await breached(rig)
    tally = await look(rig)
    assert tally.counted == {"detected": 2, "acted": 1, "escalated": 1}
    assert await resting(rig.store, rig.now) == frozenset(Lever)
    assert [one.code for one in (await settle_due_payouts(rig)).retrying] == [Contained.code]
    assert rig.provider.calls == []
    assert (await sweep_fees_due(rig)).skipped
    with pytest.raises(Contained):
        await rig.sweep_fees("by hand")
    assert "economy.contained" in [one.name for one in await rig.store.findings()]
    assert (await look(rig)).counted == {}, "it is done once"
    assert payout


async def test_what_rests_goes_on_by_an_operators_word_alone(rig: Rig) -> None:
    payout = await rig.due_payout()
    await breached(rig)
    await look(rig)
    await rig.done(Fund(key="f", actor=SYSTEM, amount=usd("1.00"), reason="found again"))
    assert not (await check_treasury(rig)).breaches
    rig.later(86_400)
    await look(rig)
    assert await resting(rig.store, rig.now) == frozenset(Lever)
    assert await rig.release("the cash is back", by="olivia") == ("fees", "payouts")
    assert await rig.release("again", by="olivia") == ()
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert await rig.store.findings() == []
    audit = await rig.audit()
    assert {one.by for one in audit if one.phase is Phase.RELEASED} == {"olivia"}
    assert ("ended", "economy.unexplained") in await steps(rig)


async def test_a_rule_has_a_cool_down_and_a_cap_and_then_people_are_told(rig: Rig) -> None:
    await breached(rig)
    acted = 0
    for turn in range(3):
        acted += (await look(rig)).counted.get("acted", 0)
        assert acted == turn + 1
        await rig.release("not so bad", by="olivia")
        rig.later(3_500)
        assert "acted" not in (await look(rig)).counted, "it cools down"
        rig.later(200)
    tally = await look(rig)
    assert tally.counted == {"escalated": 1}
    assert await resting(rig.store, rig.now) == frozenset()
    assert (await look(rig)).counted == {}


async def test_another_worker_goes_on_where_this_one_was(rig: Rig, clock: ManualClock) -> None:
    await breached(rig)
    await look(rig)
    other = Rig(store=rig.store, clock=clock)
    assert (await look(other)).counted == {}
    await other.app.close()


async def test_two_passes_at_once_make_each_record_once(rig: Rig) -> None:
    await breached(rig)
    await asyncio.gather(*(look(rig) for _ in range(4)))
    made = await steps(rig)
    assert len(made) == len(set(made)) == 4


async def test_which_findings_stop_money_is_a_setting(rig: Rig) -> None:
    rig.settings = replace(rig.settings, contain=())
    await breached(rig)
    assert (await look(rig)).counted == {"detected": 2, "escalated": 2}
    assert await resting(rig.store, rig.now) == frozenset()


async def test_a_mismatch_is_in_the_audit_until_it_is_accepted(rig: Rig) -> None:
    await rig.store.record_finding(MISMATCH, "history", new_id=rig.key())
    await look(rig)
    (found,) = await rig.store.findings()
    await rig.store.accept_finding(found.id, "restored")
    await look(rig)
    assert await steps(rig) == [
        ("detected", MISMATCH),
        ("acted", MISMATCH),
        ("ended", MISMATCH),
    ]
    assert (await rig.audit())[0].detail == "accepted: restored"


async def test_the_audit_is_a_chain_that_checkpoints_and_the_prover_cover(rig: Rig) -> None:
    await breached(rig)
    await look(rig)
    audit = list(reversed(await rig.audit()))
    assert [one.number for one in audit] == [1, 2, 3, 4]
    links = await rig.store.ledger_links(ACCOUNT)
    assert [one.hash for one in audit] == [one.hash for one in links]
    assert all(one.hash == other.prev for one, other in pairwise(links))
    proof = await rig.prove()
    assert proof.chain_intact
    assert proof.conserved
    assert proof.rows
    assert (await seal_checkpoint(rig)).sealed
    await rig.release("all is well", by="olivia")
    assert not (await verify_checkpoint(rig)).mismatch
    assert (await rig.read.balance(ACCOUNT)).minor == 0


async def test_pages_of_the_audit(rig: Rig) -> None:
    await breached(rig)
    await look(rig)
    page = await rig.audit(limit=3)
    rest = await rig.audit(before=page[-1].number, limit=3)
    assert [one.number for one in (*page, *rest)] == [4, 3, 2, 1]


async def test_dead_reports_are_put_back_a_few_times_and_then_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most ten at once, with a rest in between; what was rejected stays."""
    failing = True

    async def submit(*_: object, **__: object) -> Outcome:
        if failing:
            raise ChainBroken("altered")
        return Rejected("NO", {})

    monkeypatch.setattr(rig, "submit", submit)
    for n in range(12):
        asked = TopUp(key=f"whk:{n}", actor=SYSTEM, user="ann", amount=credits(1), source="card")
        await rig.accept(f"e{n}", asked)
    for turn in range(3):
        await drain_inbox(rig)
        assert (await look(rig)).counted == {"acted": 1}
        page = await rig.app.messages.find(states=["pending"])
        assert len(page.items) == 10
        assert (await look(rig)).counted == {}, "it cools down"
        rig.later(3_700)
        assert "10 dead reports were put back" in (await rig.audit())[0].detail, turn
    await drain_inbox(rig)
    assert (await look(rig)).counted == {"escalated": 1}
    assert (await look(rig)).counted == {}
    failing = False
    await rig.app.messages.redrive(everything=True)
    assert len((await drain_inbox(rig)).dead_lettered) == 12
    rig.later(3_700)
    assert (await look(rig)).counted == {"ended": 1}
    assert await steps(rig) == [("acted", "inbox")] * 3 + [
        ("escalated", "inbox"),
        ("ended", "inbox"),
    ]
