"""M3: many processes append to one chain of a SQLite file; it stays one line and verifies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from offpath.model.ledger.posting import GENESIS, LinkRecord, hash_of
from offpath.store.sqlite import SqliteStore
from tests.integration.scale import scaled

_PROCESSES = 8
_EACH = scaled(60, 1_000)
_ACCOUNTS = ("ann:spendable", "platform:stored_value")

_SERVICE = """
import asyncio, sys
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.store.sqlite import SqliteStore


def posting(name):
    entries = (Entry("platform:stored_value", 5), Entry("ann:spendable", -5))
    return posting_op(NewPosting(id=name, entries=entries, meta={"source": "card", "by": name}))


async def main():
    path, which, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = SqliteStore(path)
    await store.open()
    for number in range(count):
        operation = posting(f"{which}-{number}")
        [decided] = await store.post([operation])
        assert decided.receipt is not None and not decided.duplicate, decided
        if number % 10 == 0:
            [again] = await store.post([operation])
            assert again.duplicate, again
    await store.close()


asyncio.run(main())
"""


def _run(program: Path, path: Path) -> list[tuple[int, str]]:
    """Let the processes begin at once, on a file that is not there; what each said."""
    running = [
        subprocess.Popen(
            [sys.executable, str(program), str(path), str(which), str(_EACH)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for which in range(_PROCESSES)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    return [(process.returncode, text) for process, text in zip(running, said, strict=True)]


async def _chain(store: SqliteStore, account: str) -> list[tuple[LinkRecord, str]]:
    found: list[tuple[LinkRecord, str]] = []
    while page := await store.ledger_since(account, len(found), limit=500):
        found += page
    return found


async def _verify(store: SqliteStore) -> list[str]:
    """Every chain is one line without a fork; the heads."""
    heads = []
    for account in await store.ledger_accounts():
        head, balance = GENESIS, 0
        chain = await _chain(store, account.id)
        for number, (link, meta) in enumerate(chain, 1):
            balance += 5
            assert (link.number, link.prev, link.balance) == (number, head, balance)
            head = hash_of(link, meta)
            assert link.hash == head
        assert len({link.posting for link, _ in chain}) == len(chain) == _PROCESSES * _EACH
        assert (account.number, account.head, account.balance) == (len(chain), head, balance)
        heads.append(head)
    return heads


async def test_many_processes_make_one_line_of_links(tmp_path: Path) -> None:
    program, path = tmp_path / "service.py", tmp_path / "ledger.db"
    program.write_text(_SERVICE, "utf-8")
    assert await asyncio.to_thread(_run, program, path) == [(0, "")] * _PROCESSES
    seen = []
    for _ in range(2):
        store = SqliteStore(path)
        await store.open()
        assert [one.id for one in await store.ledger_accounts()] == list(_ACCOUNTS)
        assert await store.ledger_sums() == {"CREDIT": 0}
        seen.append(await _verify(store))
        assert {one.level for one in await store.diagnose() if one.name == "ledger"} == {"fine"}
        await store.close()
    assert seen[0] == seen[1]
