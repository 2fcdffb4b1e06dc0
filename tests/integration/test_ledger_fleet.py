"""Many processes post to one ledger: one line of links, no fork, nothing spent twice.

The cases M3 (a chain that forked where it began, and did not verify after a restart) and M5 (a sum
that was not constant in every snapshot).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import GENESIS, Entry, NewPosting, hash_of
from offpath.store.backends import make_store
from offpath.store.ledger import LedgerReads
from offpath.store.protocol import Store
from tests.integration.ledger_appender import WALLETS
from tests.integration.scale import scaled

PROCESSES = 8
ROOT = Path(__file__).resolve().parents[2]
START = 100


async def _process(url: str, what: str, number: int, count: int) -> int:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.ledger_appender"),
        *(url, what, str(number), str(count)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    assert child.returncode == 0, err.decode()[-3000:]
    return int(out)


async def _processes(url: str, what: str, count: int) -> int:
    calls = (_process(url, what, number, count) for number in range(PROCESSES))
    return sum(await asyncio.gather(*calls))


async def _opened(url: str) -> Store:
    store = make_store(url)
    await store.open()
    return store


async def _chain(reads: LedgerReads, account: str) -> list[str]:
    """The hashes of one chain, which is a line from its beginning on."""
    hashes, head = list[str](), GENESIS
    while page := await reads.ledger_since(account, len(hashes)):
        for link, meta in page:
            assert (link.number, link.prev) == (len(hashes) + 1, head)
            assert link.hash == hash_of(link, meta)
            head = link.hash
            hashes.append(head)
    return hashes


@pytest.mark.timeout(900)
async def test_eight_processes_append_to_an_empty_account_in_one_line(url: str) -> None:
    count = scaled(40, 1000)
    await (await _opened(url)).close()
    assert await _processes(url, "append", count) == PROCESSES * count
    seen = []
    for _ in range(2):  # the second look is that of a store that was opened anew
        store = await _opened(url)
        try:
            (account,) = await store.ledger_accounts(ids=["all:spendable"])
            hashes = await _chain(store, account.id)
            assert len(hashes) == account.number == account.balance == PROCESSES * count
            assert hashes[-1] == account.head
            assert await store.ledger_sums() == {"CREDIT": 0}
            links = await store.ledger_links(account.id, limit=10 * len(hashes))
            assert len({link.posting for link in links}) == len(hashes)
            seen.append(hashes)
        finally:
            await store.close()
    assert seen[0] == seen[1]


@pytest.mark.timeout(900)
async def test_the_sum_is_constant_in_every_snapshot_while_processes_move_money(url: str) -> None:
    count = scaled(60, 1000)
    store = await _opened(url)
    try:
        gift = [
            posting_op(
                NewPosting(
                    id=f"gift_{one}",
                    entries=(Entry("platform:stored_value", START), Entry(one, -START)),
                )
            )
            for one in WALLETS
        ]
        assert all(decided.receipt for decided in await store.post(gift))
        moving = asyncio.create_task(_processes(url, "transfer", count))
        looks = 0
        while not moving.done() or not looks:
            async with store.ledger_snapshot() as snapshot:
                found = await snapshot.ledger_accounts(ids=WALLETS)
                totals = await snapshot.ledger_totals()
            assert sum(one.balance for one in found) == START * len(WALLETS)
            assert min(one.balance for one in found) >= 0
            assert totals.balances["spendable"] == START * len(WALLETS)
            looks += 1
        moved = await moving
        assert 0 < moved <= PROCESSES * count
        counts = await store.ledger_counts()
        assert counts.postings == moved + len(WALLETS)
        for one in await store.ledger_accounts():
            assert len(await _chain(store, one.id)) == one.number
    finally:
        await store.close()
