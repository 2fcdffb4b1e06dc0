"""Cashback for a month: two credits fail, and the next run credits only what is missing."""

from __future__ import annotations

import asyncio

from offpath import App
from offpath.settlements.rates import Cashback, PlayerActivity, Share
from offpath.testing import FakeCredits, FakeRecords

app = App()
credits_port = FakeCredits()  # a real one writes key and credit in one transaction
players = [PlayerActivity(id=f"player-{n}", user=f"player-{n}", lost=n * 1_000) for n in range(6)]

app.settlements.define(
    "cashback",
    records=FakeRecords(players),
    calculate=Cashback(share=Share.parse("10%"), cap=450),
    credit=credits_port,
    zone="Europe/Madrid",
    unit="month",
)


async def main() -> None:
    credits_port.fail("player-2", "player-4")
    first = await app.settlements.run("cashback", "2026-11")
    print("first: ", first.outcome.value, first.counts())
    credits_port.heal()
    second = await app.settlements.run("cashback", "2026-11")
    print("second:", second.outcome.value, second.counts())
    print(dict(sorted(credits_port.balances.items())))


if __name__ == "__main__":
    asyncio.run(main())
