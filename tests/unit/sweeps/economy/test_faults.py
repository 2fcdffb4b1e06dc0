"""Whatever fails on the way, and however often: money moves once, and all of it comes to an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from offpath.economy import SWEEP_NAMES, EconomyRun, TopUp, credits, event_key
from offpath.economy.ledger.obligations import position
from offpath.economy.ledger.rows import SubscriptionBody, body
from offpath.economy.testing import Killed, Mode
from offpath.events import Event
from offpath.model.message import MessageState
from tests.unit.sweeps.economy.rig import SYSTEM, Rig
from tests.unit.sweeps.rows_table import drive

SELLERS, FANS, EVENTS, ROUNDS = 6, 5, 8, 25
STORE = (
    "post",
    "lease_sides",
    "lease_messages",
    "settle_messages",
    "save_checkpoint",
    "ledger_totals",
)
PROVIDER = (Mode.ACCEPT, Mode.TIME_OUT, Mode.REFUSE, Mode.KILL, Mode.CALL_BACK)


class World:
    """An economy with one of everything that sweeps move, and chance that breaks it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig = rig = Rig(
            {
                "max_payout_attempts": 1_000,
                "max_payout_age": 10_000_000.0,
                "max_subscription_attempts": 1_000,
                "max_promo_attempts": 1_000,
            }
        )
        self.got: set[str] = set()
        rig.app.outbox(dispatcher=self.outside, attempts=1_000)
        rig.provider.callback = self.webhook
        self.payouts: list[str] = []
        self.clubs: list[str] = []
        self.grants: list[str] = []

    async def outside(self, event: Event) -> None:
        if self.chance.random() < 0.2:
            raise ConnectionError("down")
        self.got.add(event.id)

    async def webhook(self, key: str, _ref: str) -> None:
        """The provider tells at once that it paid, and may be unheard."""
        try:
            await self.rig.settle(key)
        except Exception:
            return

    async def begin(self) -> None:
        rig = self.rig
        for n in range(SELLERS):
            await rig.earn(f"seller-{n}", "4.00")
            self.payouts.append(await rig.request_payout(f"seller-{n}", "4.00"))
        for n in range(FANS):
            await rig.top_up(f"fan-{n}", "1000.00")
            self.clubs.append(await rig.subscribe(f"fan-{n}", "1.00", period=100_000.0))
            self.grants.append(await rig.grant(f"fan-{n}", "2.00", lasts=10))
        for n in range(EVENTS):
            await rig.accept(
                f"e{n}",
                TopUp(
                    key=event_key(f"e{n}"),
                    actor=SYSTEM,
                    user=f"new-{n % 2}",
                    amount=credits(10),
                    source="card",
                ),
            )
        rig.later(100_001)

    async def passing(self, run: Coroutine[Any, Any, EconomyRun]) -> None:
        """A run, in which time passes whenever it waits: what moves messages waits for a store."""
        task = asyncio.ensure_future(run)
        await drive(self.rig.clock, task, 1.0)
        await task

    async def round(self) -> None:
        """One run of some sweeps while things break."""
        rig, chance = self.rig, self.chance
        for _ in range(chance.randrange(4)):
            break_ = chance.choice((rig.store.fail, rig.store.lose_answer))
            break_(chance.choice(STORE), call=chance.randrange(1, 4))
        rig.provider.script(*chance.choices(PROVIDER, k=chance.randrange(4)))
        only = chance.sample(SWEEP_NAMES, chance.randrange(1, 11))
        with suppress(Killed):  # the process ended, and begins again
            await self.passing(rig.sweep(*only, limit=chance.choice((1, 3, 100))))
        rig.store.heal()
        rig.provider.heal()
        rig.later(chance.choice((0, 10, 100, 400)))


@pytest.mark.parametrize("seed", range(12))
async def test_money_moves_once_and_everything_ends(seed: int) -> None:
    world = World(seed)
    rig = world.rig
    await world.begin()
    for _ in range(ROUNDS):
        await world.round()
    world.chance.seed("calm")
    for _ in range(12):
        await world.passing(rig.run_sweeps())
        rig.later(4_000)

    # one transfer for each payout, of its quote, and never one that was given back as well
    assert set(rig.provider.accepted) == set(world.payouts)
    for n, payout in enumerate(world.payouts):
        row = await rig.row("payout", payout)
        assert row.state in {"SUBMITTED", "SETTLED"}
        assert await rig.balance(f"seller-{n}:earned") == "0.00"
    # one period for each that fell due, and promos taken back once
    for n, club in enumerate(world.clubs):
        row = await rig.row("subscription", club)
        paid = body(row, SubscriptionBody).number
        assert (row.state, paid > 1) == ("ACTIVE", True)
        assert await rig.balance(f"fan-{n}:spendable") == f"{1000 - paid}.00"
        assert await rig.balance(f"fan-{n}:promo") == "0.00"
    # each top-up that came in, once
    for n in range(2):
        assert await rig.balance(f"new-{n}:spendable") == "40.00"
    page = await rig.app.messages.find(limit=10_000)
    assert {one.state for one in page.items} == {MessageState.DONE}
    assert {one.id for one in page.items if one.box == "out"} == world.got
    # and the books hold
    stands = position(await rig.store.ledger_totals(), rig.rates)
    assert stands.shortfall == 0
    assert set((await rig.store.ledger_sums()).values()) <= {0}
    proof = await rig.prove()
    assert proof.holds, proof
    await rig.app.close()
