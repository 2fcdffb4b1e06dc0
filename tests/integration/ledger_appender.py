"""One of many processes that post to one ledger: ``python -m tests.integration.ledger_appender``.

``append``: postings that all raise one account. ``transfer``: from one wallet to another, by
chance; those that would overdraw one are refused. Prints how many went well.
"""

from __future__ import annotations

import asyncio
import random
import sys

from offpath.errors import StoreBusy
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.faults import Overdraft
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.store.backends import make_store
from offpath.store.protocol import Store

WALLETS = tuple(f"w{n}:spendable" for n in range(6))
TOGETHER = 8
"""Calls in flight at once, each with one operation."""


def appending(process: int, number: int) -> LedgerOp:
    """One credit from the platform to an account of everybody."""
    posting = f"txn_{process}_{number}"
    entries = (Entry("platform:stored_value", 1), Entry("all:spendable", -1))
    meta = {"at": 1_700_000_000_000 + number, "kind": "m3", "who": f"prozess-ä-{process}"}
    return posting_op(NewPosting(id=posting, entries=entries, meta=meta))


def transferring(process: int, number: int, chance: random.Random) -> LedgerOp:
    """Any amount from any wallet to any other one."""
    giver, taker = chance.sample(WALLETS, 2)
    amount = chance.randrange(1, 80)
    entries = (Entry(giver, amount), Entry(taker, -amount))
    return posting_op(NewPosting(id=f"txn_{process}_{number}", entries=entries))


async def post(store: Store, operation: LedgerOp) -> Decided:
    """Post one, as often as it takes: with its key, a repeat changes nothing."""
    while True:
        try:
            (decided,) = await store.post([operation])
        except StoreBusy:
            continue
        return decided


async def run(url: str, what: str, process: int, count: int) -> int:
    """Post all; how many went well."""
    store = make_store(url)
    await store.open()
    chance, well = random.Random(process), 0
    try:
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            operations = [
                appending(process, number)
                if what == "append"
                else transferring(process, number, chance)
                for number in numbers
            ]
            for decided in await asyncio.gather(*(post(store, one) for one in operations)):
                if decided.error is not None and not isinstance(decided.error, Overdraft):
                    raise decided.error
                well += decided.receipt is not None
    finally:
        await store.close()
    return well


if __name__ == "__main__":
    _, given_url, given_what, given_process, given_count = sys.argv
    print(asyncio.run(run(given_url, given_what, int(given_process), int(given_count))))
