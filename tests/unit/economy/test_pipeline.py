"""The way of every operation: keys, limits, the pause, batches, events."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from offpath.economy import (
    Actor,
    Adjust,
    Committed,
    Duplicate,
    GrantEntitlement,
    KeyReused,
    MalformedOperation,
    Rejected,
    RevokeEntitlement,
    Spend,
    TopUp,
    Unauthorized,
    credits,
)
from offpath.economy.ledger.operations.events import ALLOWED
from offpath.economy.ledger.operations.plans import fingerprint
from offpath.jobs.client.core import core_of
from offpath.model.ledger.records import MoveAttempt
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import (
    BANK,
    BASE,
    OPS,
    START,
    Marketplace,
    committed,
    duplicate,
    rejected,
)


def attempts(market: Marketplace, subject: str) -> list[MoveAttempt]:
    tries = market.app.store()._inner._tables.ledger.tries.get(subject)  # type: ignore[attr-defined]
    return [] if tries is None else list(tries.made)


# -- keys --------------------------------------------------------------------------------------


async def test_a_declined_operation_leaves_its_key_free(market: Marketplace) -> None:
    """§16.110"""
    order = market.order("ann", "4.00")
    rejected(await market.economy.submit(order))
    assert await market.economy.read.receipt(order.key) is None
    await market.top_up("ann", "4.00")
    committed(await market.economy.submit(order))
    assert await market.economy.read.receipt(order.key) is not None


async def test_a_fault_leaves_its_key_free(market: Marketplace) -> None:
    """§16.110"""
    bad = Adjust(key="k", actor=OPS, account="ann:promo", amount=credits(-1), reason="x")
    with pytest.raises(Exception, match="less than"):
        await market.economy.submit(bad)
    committed(
        await market.economy.submit(
            TopUp(key="k", actor=BANK, user="a", amount=credits(1), source="c")
        )
    )


async def test_a_key_belongs_to_one_operation(market: Marketplace) -> None:
    committed(await market.top_up("ann", "1.00", key="k"))
    with pytest.raises(KeyReused):
        await market.top_up("ann", "1.01", key="k")
    assert await market.balance("ann:spendable") == 100


@pytest.mark.parametrize("key", ["reversed:o1", "sub:s:p2", "sweep:june", "posting:x", "whk:evt"])
async def test_users_take_no_key_that_the_economy_uses(market: Marketplace, key: str) -> None:
    await market.top_up("ann", "5.00")
    with pytest.raises(MalformedOperation):
        await market.spend("ann", "1.00", key=key)


async def test_what_cannot_be_meant_is_told_before_who_may_not(market: Marketplace) -> None:
    with pytest.raises(MalformedOperation):
        await market.top_up("ann", "5.00", source=" ", actor=Actor.user("ann"))
    with pytest.raises(Unauthorized):
        await market.top_up("ann", "5.00", actor=Actor.user("ann"))


async def test_who_repeats_an_operation_may_be_another(market: Marketplace) -> None:
    committed(await market.top_up("ann", "1.00", key="k"))
    duplicate(await market.top_up("ann", "1.00", key="k", actor=OPS))


def test_a_fingerprint_covers_what_is_meant_and_not_who_or_how_often() -> None:
    first = TopUp(key="a", actor=BANK, user="ann", amount=credits(1), source="card")
    same = TopUp(key="b", actor=OPS, user="ann", amount=credits(1), source="card")
    other = TopUp(key="a", actor=BANK, user="ann", amount=credits(1), source="cash")
    given = GrantEntitlement(key="a", actor=BANK, user="ann", sku="x")
    taken = RevokeEntitlement(key="a", actor=BANK, user="ann", sku="x")
    assert fingerprint(first) == fingerprint(same)
    assert len({fingerprint(one) for one in (first, other, given, taken)}) == 4


# -- velocity ----------------------------------------------------------------------------------


async def test_every_attempt_counts_whatever_becomes_of_it(open_market: Opens) -> None:
    """§16.108"""
    market = await open_market(velocity_limit_minor=400, velocity_inflow_limit_minor=10**9)
    await market.top_up("ann", "4.00")
    outcomes = await asyncio.gather(*(market.spend("ann", "4.00") for _ in range(5)))
    assert sum(isinstance(one, Committed) for one in outcomes) == 1
    totals = [attempt.total for attempt in attempts(market, "out:ann")]
    assert totals == [400, 800, 1200, 1600, 2000]
    denied = [one for one in outcomes if isinstance(one, Rejected)]
    assert {one.reason for one in denied} == {"RISK_DENIED"}
    assert denied[0].fields == {"window": 3_600_000, "limitMinor": 400}


async def test_attempts_without_funds_count_too(open_market: Opens) -> None:
    """§16.108"""
    market = await open_market(velocity_limit_minor=400)
    assert rejected(await market.spend("ann", "4.00"))[0] == "INSUFFICIENT_FUNDS"
    assert rejected(await market.spend("ann", "4.00"))[0] == "RISK_DENIED"


async def test_exactly_the_limit_is_within_it(open_market: Opens) -> None:
    """§16.108"""
    market = await open_market(velocity_limit_minor=400)
    committed(await market.top_up("ann", "4.00"))
    assert rejected(await market.top_up("ann", "0.01"))[0] == "RISK_DENIED"
    committed(await market.spend("ann", "4.00"))


async def test_an_attempt_as_old_as_the_window_counts_no_more(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=400, velocity_window=10.0)
    committed(await market.top_up("ann", "4.00"))
    market.at(9_999)
    rejected(await market.top_up("ann", "4.00"))
    market.at(19_998)
    rejected(await market.top_up("ann", "0.01"))
    market.at(29_998)
    committed(await market.top_up("ann", "4.00"))


async def test_a_repeat_under_the_same_key_counts_once(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=400)
    order = market.order("ann", "4.00")
    for _ in range(3):
        assert rejected(await market.economy.submit(order))[0] == "INSUFFICIENT_FUNDS"
    assert [one.total for one in attempts(market, "out:ann")] == [400]


async def test_a_second_charge_of_an_order_is_not_counted(market: Marketplace) -> None:
    await market.top_up("ann", "9.00")
    committed(await market.spend("ann", "4.00", order_id="o1"))
    rejected(await market.spend("ann", "4.00", order_id="o1"))
    assert [one.total for one in attempts(market, "out:ann")] == [400]


async def test_promos_count_as_top_ups_and_payouts_as_spends(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=1_000)
    await market.promo("ann", "6.00")
    assert rejected(await market.top_up("ann", "6.00"))[0] == "RISK_DENIED"
    rejected(await market.request_payout("ann", "6.00"))
    committed(await market.subscribe("ann", "4.00"))
    assert rejected(await market.spend("ann", "0.01"))[0] == "RISK_DENIED"


# -- the pause ---------------------------------------------------------------------------------


async def test_in_a_maintenance_window_only_users_wait(open_market: Opens) -> None:
    """§16.109"""
    until = START + timedelta(seconds=10)
    market = await open_market(pause_start=START, pause_end=until)
    committed(await market.top_up("ann", "9.00"))
    committed(
        await market.economy.submit(
            Adjust(key="a", actor=OPS, account="ann:promo", amount=credits(1), reason="x")
        )
    )
    assert rejected(await market.spend("ann", "1.00")) == (
        "ECONOMY_PAUSED",
        {"resumesAt": BASE + 10_000},
    )
    assert attempts(market, "out:ann") == []
    assert await market.balance("ann:spendable") == 900
    op = await market.economy.prepare(market.order("ann", "1.00"))
    refusal = (await market.decided(op)).refusal
    assert refusal is not None
    assert refusal.reason == "ECONOMY_PAUSED"
    market.at(10_000)
    committed(await market.spend("ann", "1.00"))


# -- batches -----------------------------------------------------------------------------------


async def test_in_a_batch_each_stands_for_itself(market: Marketplace) -> None:
    """§16.112"""
    await market.top_up("ann", "5.00")
    orders = [
        market.order("ann", "4.00"),
        market.order("ben", "4.00"),
        market.order("ann", "1.00"),
    ]
    outcomes = await market.economy.submit_many(orders)
    assert [type(one) for one in outcomes] == [Committed, Rejected, Committed]
    assert await market.balance("ann:spendable") == 0
    assert [one.total for one in attempts(market, "out:ben")] == [400]


async def test_a_key_twice_in_a_batch_is_refused_the_second_time(market: Marketplace) -> None:
    """§16.112"""
    await market.top_up("ann", "5.00")
    order = market.order("ann", "1.00")
    outcomes = await market.economy.submit_many([order, order])
    assert isinstance(outcomes[0], Committed)
    assert isinstance(outcomes[1], KeyReused)


async def test_a_malformed_operation_in_a_batch_harms_nobody(market: Marketplace) -> None:
    await market.top_up("ann", "5.00")
    good = market.order("ann", "1.00")
    bad = market.order("ann", "1.00", sku=" ")
    outcomes = await market.economy.submit_many([bad, good])
    assert isinstance(outcomes[0], MalformedOperation)
    assert isinstance(outcomes[1], Committed)


@pytest.mark.parametrize("seed", range(5))
async def test_oversubscribed_batches_end_where_a_serial_replay_ends(
    open_market: Opens, seed: int
) -> None:
    """§16.111"""
    import random

    dice = random.Random(seed)
    one, two = await open_market(), await open_market()
    users = ["u1", "u2", "u3"]
    requests = [
        one.order(buyer, f"{dice.randint(1, 9)}.00", "sel", key=f"k{n}", order_id=f"o{n}")
        for n, buyer in enumerate(dice.choices(users, k=60))
    ]
    for market in (one, two):
        for user in users:
            committed(await market.top_up(user, "40.00"))
    outcomes = await one.economy.submit_many(requests)
    serial = [await two.economy.submit(request) for request in requests]
    assert [type(each) for each in outcomes] == [type(each) for each in serial]
    assert any(isinstance(each, Rejected) for each in serial)
    for account in [*(f"{user}:spendable" for user in users), "sel:earned", "platform:revenue"]:
        assert await one.balance(account) == await two.balance(account)
    await one.sound()


# -- entitlements ------------------------------------------------------------------------------


async def test_a_thing_is_given_and_taken_by_hand(market: Marketplace) -> None:
    give = GrantEntitlement(
        key="g", actor=OPS, user="ann", sku="hat", expires_at=START + timedelta(seconds=1)
    )
    committed(await market.economy.submit(give))
    assert await market.economy.read.owns("ann", "hat")
    take = RevokeEntitlement(key="r1", actor=OPS, user="ann", sku="hat")
    committed(await market.economy.submit(take))
    assert not await market.economy.read.owns("ann", "hat")
    assert rejected(
        await market.economy.submit(RevokeEntitlement(key="r2", actor=OPS, user="ann", sku="hat"))
    ) == ("NOT_ENTITLED", {"userId": "ann", "sku": "hat"})
    committed(await market.top_up("ann", "1.00"))
    committed(await market.spend("ann", "1.00"))
    assert await market.economy.read.owns("ann", "hat")


async def test_what_has_expired_is_not_there_to_be_taken(market: Marketplace) -> None:
    give = GrantEntitlement(
        key="g", actor=OPS, user="ann", sku="hat", expires_at=START + timedelta(seconds=1)
    )
    committed(await market.economy.submit(give))
    market.at(1_001)
    take = RevokeEntitlement(key="r1", actor=OPS, user="ann", sku="hat")
    assert rejected(await market.economy.submit(take))[0] == "NOT_ENTITLED"


async def test_users_give_themselves_nothing(market: Marketplace) -> None:
    with pytest.raises(Unauthorized):
        await market.economy.submit(
            GrantEntitlement(key="g", actor=Actor.user("ann"), user="ann", sku="hat")
        )


# -- events and other transactions -------------------------------------------------------------


async def test_an_event_tells_what_is_allowed_and_nothing_of_who(market: Marketplace) -> None:
    committed(await market.top_up("ann", "4.00"))
    receipt = committed(await market.spend("ann", "4.00", order_id="o1"))
    page = await market.app.messages.find(limit=10)
    events = [json.loads(record.payload) for record in page.items]
    sale = next(event for event in events if event["type"] == "economy.sale.completed")
    assert sale.pop("id").startswith("evt_")
    assert sale == {
        "type": "economy.sale.completed",
        "version": 1,
        "occurredAt": BASE,
        "subject": receipt.id,
        "data": {"orderId": "o1", "sku": "hat", "price": "CREDIT:4.00"},
        "audience": "client",
    }


def test_no_event_of_clients_has_a_users_id() -> None:
    assert len(ALLOWED) == 14
    for audience, fields in ALLOWED.values():
        assert audience == "internal" or "userId" not in fields


async def test_a_declined_operation_tells_nobody(market: Marketplace) -> None:
    rejected(await market.spend("ann", "4.00"))
    assert await market.topics() == []


async def test_a_prepared_operation_commits_with_other_things(market: Marketplace) -> None:
    from offpath.model.effects import Effects

    await market.top_up("ann", "4.00")
    order = market.order("ann", "4.00")
    op = await market.economy.prepare(order)
    await core_of(market.app).client.commit(Effects(operations=(op,)))
    assert await market.balance("ann:spendable") == 0
    assert isinstance(await market.economy.submit(order), Duplicate)


async def test_outcomes_are_counted_by_kind_and_reason(market: Marketplace) -> None:
    await market.top_up("ann", "4.00", key="k")
    await market.top_up("ann", "4.00", key="k")
    await market.spend("ben", "4.00")
    with pytest.raises(MalformedOperation):
        await market.economy.submit(
            Spend(
                key="k2",
                actor=BANK,
                buyer="ann",
                order_id="o",
                sku="x",
                price=credits(1),
                recipients=(),
            )
        )
    found = {
        tuple(sorted(reading.labels.values())): reading.value
        for reading in market.app.metrics.list()
        if reading.name == "offpath_economy_submit_total" and reading.value
    }
    assert found == {
        ("", "committed", "topUp"): 1.0,
        ("", "duplicate", "topUp"): 1.0,
        ("INSUFFICIENT_FUNDS", "rejected", "spend"): 1.0,
        ("OP.MALFORMED", "fault", "spend"): 1.0,
    }


async def test_a_meter_that_raises_changes_no_outcome(
    market: Marketplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no metrics today")

    monkeypatch.setattr(market.economy._meter, "outcome", broken)
    committed(await market.top_up("ann", "4.00"))
