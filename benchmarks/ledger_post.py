"""``python -m benchmarks.ledger_post --batch 32``: what a ledger's batch costs on Postgres.

Each operation is a spend of four links, with its key, a sale, an entitlement, an attempt and a
message. One batch is in flight at a time, so the figures are those of ``post`` alone; the processor
time of client and server is the steadier of them on a busy machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import click
import psycopg

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.needs import AttemptNeed, Needs
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt, SideKey, SideRow
from offpath.model.new import Box, NewMessage
from offpath.runtime.ids import new_id
from offpath.store.postgres import PostgresStore

USERS = 2000
SELLERS = 200
HOUR = 3_600_000


def spend(chance: random.Random) -> LedgerOp:
    """A buyer pays a seller, the platform takes its fee."""
    buyer, seller = f"usr_{chance.randrange(USERS):06}", f"sel_{chance.randrange(SELLERS):04}"
    order, name = new_id(), new_id()
    key, owned = f"spend-{order}", f"{buyer}/{order}"
    entries = (
        Entry(f"{buyer}:spendable", 10_000),
        Entry(f"{seller}:earned", -8_000),
        Entry("platform:revenue", -1_500),
        Entry("platform:settlement_accrual", -500),
    )
    meta = {"kind": "spend", "order": order, "buyer": buyer, "price": "CREDIT:100.00"}
    payload = json.dumps({"id": name, "type": "economy.sale.completed", "data": meta})

    def decide(book: Book) -> Receipt:
        book.attempt(f"out:{buyer}", key, 10_000, book.now - HOUR)
        book.post(NewPosting(id=name, entries=entries, meta=meta))
        for kind, row, state in (("sale", order, "SOLD"), ("entitlement", owned, "OWNED")):
            book.put(SideRow(kind=kind, id=row, owner=buyer, state=state, anchor=name))
        book.publish(NewMessage(id=name, box=Box.OUT, stream="economy", payload=payload))
        return Receipt(id=name, postings=(name,))

    needs = Needs(
        accounts=frozenset(one.account for one in entries),
        sides=frozenset({SideKey("sale", order), SideKey("entitlement", owned)}),
        attempts=frozenset({AttemptNeed(f"out:{buyer}", HOUR, key)}),
    )
    return LedgerOp(decide=decide, needs=needs, key=key, fingerprint="f" * 64)


def gift(number: int) -> LedgerOp:
    """The credits that a user begins with."""
    account = f"usr_{number:06}:spendable"
    entries = (Entry("platform:stored_value", 10**9), Entry(account, -(10**9)))
    return posting_op(NewPosting(id=f"gift_{number}", entries=entries))


def _server_seconds(pids: list[int]) -> float:
    """Processor time of the store's sessions, where the server is on this machine."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


async def measure(url: str, batch: int, seconds: float) -> str:
    """Post batches for some seconds; what it came to."""
    store, chance = PostgresStore(url, migrate=True, pool_size=1), random.Random(1)
    await store.open()
    try:
        for first in range(0, USERS, 200):
            await store.post([gift(number) for number in range(first, first + 200)])
        for _ in range(20):
            await store.post([spend(chance) for _ in range(batch)])
        with psycopg.connect(url) as looking:
            rows = looking.execute(
                "select pid from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid() and query not ilike 'listen%'"
            ).fetchall()
        pids = [row[0] for row in rows]
        took: list[float] = []
        used, served = 0.0, _server_seconds(pids)
        while sum(took) < seconds:
            operations = [spend(chance) for _ in range(batch)]
            began, cpu = time.perf_counter(), time.process_time()
            answers = await store.post(operations)
            took.append(time.perf_counter() - began)
            used += time.process_time() - cpu
            if not all(one.receipt for one in answers):
                raise click.ClickException(f"an operation failed: {answers}"[:500])
        served = _server_seconds(pids) - served
    finally:
        await store.close()
    count, took = batch * len(took), sorted(took)
    return (
        f"batch {batch}: {count / sum(took):,.0f} operations/s, ms a batch: "
        f"{took[0] * 1e3:.1f} least, {took[len(took) // 2] * 1e3:.1f} median; processor time an "
        f"operation: client {used / count * 1e6:.0f} us, server {served / count * 1e6:.0f} us"
    )


@click.command()
@click.option("--url", default="postgresql://postgres@127.0.0.1:5432/postgres")
@click.option("--batch", "batches", type=int, multiple=True, default=(32, 100))
@click.option("--seconds", type=float, default=6.0)
def main(url: str, batches: tuple[int, ...], seconds: float) -> None:
    """Measure batches of these sizes, each on a fresh database."""
    for batch in batches:
        name = f"offpath_bench_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f'create database "{name}"'.encode())
            try:
                fresh = urlsplit(url)._replace(path=f"/{name}").geturl()
                click.echo(asyncio.run(measure(fresh, batch, seconds)))
            finally:
                server.execute(f'drop database "{name}" with (force)'.encode())


if __name__ == "__main__":
    main()
