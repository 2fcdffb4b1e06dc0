"""A marketplace on one SQLite file: credits are bought, spent, earned, paid out, and proved.

Run it with ``python examples/marketplace``. Needs: pip install 'offpath[economy]'
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from offpath import App
from offpath.economy import (
    Actor,
    Clawback,
    Committed,
    Duplicate,
    Economy,
    Ed25519Signer,
    GrantPromo,
    Outcome,
    Refund,
    Rejected,
    RequestPayout,
    SettlePayout,
    Share,
    Spend,
    Subscribe,
    TopUp,
    credits,
    expire_promos,
    renew_subscriptions,
    seal_checkpoint,
    settle_due_payouts,
    sweep_fees_due,
    verify_checkpoint,
)
from offpath.economy.testing import FakeProvider, MemoryAnchor, Mode
from offpath.testing import ManualClock

SHOP = Actor.system("shop")
OPERATOR = Actor.operator("ada")


def told(what: str, outcome: Outcome) -> None:
    match outcome:
        case Committed():
            print(f"  {what}")
        case Duplicate():
            print(f"  {what}: done before, nothing happened twice")
        case Rejected(reason):
            print(f"  {what}: declined, {reason}")


def bought(user: str, amount: int) -> TopUp:
    return TopUp(key=f"pay-{user}", actor=SHOP, user=user, amount=credits(amount), source="card")


async def sell(economy: Economy) -> None:
    print("credits come in, and are spent")
    told("ann buys 500 credits", await economy.submit(bought("ann", 500)))
    told("bob buys 300 credits", await economy.submit(bought("bob", 300)))
    told("the payment page sends bob's again", await economy.submit(bought("bob", 300)))

    def order(number: int, buyer: str, price: int) -> Spend:
        return Spend(
            key=f"order-{number}",
            actor=Actor.user(buyer),
            buyer=buyer,
            order_id=f"A-{number}",
            sku=f"song-{number}",
            price=credits(price),
            recipients=(Share("sue", 6_000), Share("tom", 4_000)),
        )

    told("ann spends 100", await economy.submit(order(1, "ann", 100)))
    told("bob spends 200", await economy.submit(order(2, "bob", 200)))
    told("bob spends 200 more", await economy.submit(order(3, "bob", 200)))
    refund = Refund(key="refund-2", actor=OPERATOR, order_id="A-2")
    told("bob gets A-2 refunded", await economy.submit(refund))
    clawback = Clawback(key="dispute-1", actor=SHOP, user="bob", amount=credits(50))
    told("bob's bank takes 50 back", await economy.submit(clawback))


async def renew(economy: Economy, clock: ManualClock) -> None:
    print("promos expire, subscriptions renew")
    expires = clock.now() + timedelta(days=7)
    promo = GrantPromo(key="hello", actor=SHOP, user="ann", amount=credits(20), expires_at=expires)
    told("ann gets 20 to try", await economy.submit(promo))
    subscribe = Subscribe(
        key="sub-1",
        actor=Actor.user("ann"),
        user="ann",
        seller="sue",
        sku="fan-club",
        price=credits(100),
        period=timedelta(days=30),
    )
    told("ann subscribes for 100 a month, the promo first", await economy.submit(subscribe))
    clock.advance(timedelta(days=31))
    renewed = await renew_subscriptions(economy)
    expired = await expire_promos(economy)
    print(f"  a month later: {len(renewed.charged)} renewed, {len(expired.reversed)} expired")
    held = await economy.read.balances("ann")
    print(f"  ann has {held.spendable}, and {held.promo} to try")


async def pay_out(economy: Economy, clock: ManualClock, provider: FakeProvider) -> None:
    print("sellers are paid, by a provider that loses its answers")
    request = RequestPayout(key="out-1", actor=Actor.user("sue"), user="sue", amount=credits(150))
    outcome = await economy.submit(request)
    told("sue asks for 150", outcome)
    provider.script(Mode.REFUSE, Mode.TIME_OUT)  # down, then: taken, and nobody hears of it
    while not await submitted(economy):
        clock.advance(timedelta(minutes=10))
        await settle_due_payouts(economy)
    paid = list(provider.accepted.values())
    print(f"  asked {len(provider.calls)} times, paid {len(paid)} time: {paid[0].amount}")
    settled = SettlePayout(
        key="hook-1", actor=SHOP, payout_id=await the_payout(economy), provider_ref=paid[0].ref
    )
    told("the provider reports it settled", await economy.submit(settled))
    position = await economy.read.position()
    print(f"  owed {position.obligations / 100:.2f} USD, held {position.held / 100:.2f} USD")
    fees = await sweep_fees_due(economy)
    print(f"  the platform takes its fees: {fees.swept}")


async def the_payout(economy: Economy) -> str:
    (payout,) = await economy.read.payouts(user="sue")
    return payout.id


async def submitted(economy: Economy) -> bool:
    (payout,) = await economy.read.payouts(user="sue")
    return payout.state == "SUBMITTED"


async def seal_and_tamper(economy: Economy, file: Path) -> None:
    print("the books are sealed; then somebody edits the database")
    await seal_checkpoint(economy)
    proof = await economy.prove()
    print(f"  proved: {proof.accounts} accounts, {proof.links} links, holds: {proof.holds}")
    with closing(sqlite3.connect(file)) as database:
        try:
            database.execute(
                "update offpath_ledger_account set balance = 99 where id = 'bob:spendable'"
            )
        except sqlite3.IntegrityError as error:
            print(f"  a raw write is refused: {error}")
        for (name,) in database.execute(
            "select name from sqlite_schema where type = 'trigger'"
        ).fetchall():
            database.execute(f'drop trigger "{name}"')  # who owns the file can do this
        database.execute(
            "delete from offpath_ledger_link where account = 'bob:spendable' and number > 2"
        )
        database.commit()
    verified = await verify_checkpoint(economy)
    print(f"  caught: mismatch {verified.mismatch}")
    proof = await economy.prove()
    print(f"  proved again: holds: {proof.holds}, {proof.broken}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "market.db"
        clock, provider = ManualClock(), FakeProvider()
        app = App(f"sqlite:///{file}", clock=clock, auto_start=False)
        economy = Economy(
            app,
            provider=provider,
            signer=Ed25519Signer("5e" * 32),
            anchor=MemoryAnchor(),
            payout_min_earned_minor=0,
        )
        async with app:
            await sell(economy)
            await renew(economy, clock)
            await pay_out(economy, clock, provider)
            await seal_and_tamper(economy, file)


asyncio.run(main())
