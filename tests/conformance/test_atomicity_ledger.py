"""Every statement of every transition of a ledger fails once."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.deciding import LedgerOp
from offpath.model.ledger.needs import AttemptNeed
from offpath.model.ledger.records import SideKey
from offpath.model.new import Box, NewMessage
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.bench import Bench, Call, Scenario, cut_everywhere, repeat
from tests.conformance.builders import enqueue, join, new_job, take, uid
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    checkpoint,
    done,
    leaves,
    move,
    op,
    plain,
    put,
    side,
    tried,
)


def sale(key: str) -> LedgerOp:
    """An operation that writes into every table: two accounts, one of them new, rows old and new,
    a message, an attempt and its own key.
    """
    posting = move(100, BOB, given=ANN, id=f"posting {key}")
    sold = side("sale", key, "SOLD", owner="bob", unique_key="order")
    promo = SideKey("promo", "p")

    def decide(book: Book) -> None:
        book.attempt("out:ann", key, 100, NOW - 1_000)
        book.post(posting)
        book.put(side("promo", "p", "DEAD"))
        book.put(sold)
        book.publish(NewMessage(id=f"sold {key}", box=Box.OUT, stream="economy", payload="{}"))

    return op(
        decide,
        key=key,
        accounts={ANN, BOB},
        postings={posting.id},
        sides={promo, sold.key},
        holders={SideKey("sale", "order")},
        attempts={AttemptNeed("out:ann", 1_000, key)},
    )


async def _furnish(store: Store) -> None:
    await done(store, plain(500, id="first"), put(side("promo", "p", "OPEN", due_at=NOW)))


async def _post(store: Store, clock: ManualClock) -> Call:
    await _furnish(store)
    return lambda: store.post([sale("a"), plain(7, id="other"), plain(-10_000, id="too much")])


async def _commit(store: Store, clock: ManualClock) -> Call:
    await _furnish(store)
    effects = Effects(jobs=(new_job(id=uid(1)),), operations=(sale("a"),))
    return lambda: store.commit(effects)


async def _settle(store: Store, clock: ManualClock) -> Call:
    """One of two settlements is refused, after everything of both was written."""
    await _furnish(store)
    await join(store)
    await enqueue(store, new_job(id=uid(1)), new_job(id=uid(2)))
    first, second = await take(store, limit=2)
    settlements = [
        Settlement(job=first, outcome=Succeeded(), effects=Effects(operations=(sale("a"),))),
        Settlement(
            job=second,
            outcome=Succeeded(),
            effects=Effects(operations=(plain(-10_000, id="too much"),)),
        ),
    ]
    return lambda: store.settle(settlements)


async def _lease(store: Store, clock: ManualClock) -> Call:
    await _furnish(store)
    return lambda: store.lease_sides("promo", limit=5, hold=60)


async def _checkpoint(store: Store, clock: ManualClock) -> Call:
    await _furnish(store)
    sealed = leaves(await store.ledger_accounts())
    return lambda: store.save_checkpoint(checkpoint("c"), sealed)


async def _prune(store: Store, clock: ManualClock) -> Call:
    await done(store, *(tried("in:ann", f"{n}", 5, 1_000, []) for n in range(3)))
    await done(store, op(lambda book: None, key="old"))
    return lambda: store.prune_ledger(attempts_before=NOW + 1, keys_before=NOW + 1, limit=10)


SCENARIOS: dict[str, Scenario] = {
    "post": _post,
    "commit": _commit,
    "settle": _settle,
    "lease": _lease,
    "checkpoint": _checkpoint,
    "prune": _prune,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    await cut_everywhere(bench, SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    await repeat(bench, SCENARIOS[name])
