"""Every statement of every transition of a ledger fails once: what is left is *before* or *after*.

That a handler's posting and its job's end are one commit is one of these.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import AttemptNeed
from offpath.model.ledger.records import Receipt, SideKey
from offpath.model.ledger.trims import Trim
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.bench import Bench, Call, Scenario, cut_everywhere, repeat
from tests.conformance.builders import enqueue, join, new_job, take, uid
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    STORED_VALUE,
    checkpoint,
    done,
    leaves,
    move,
    op,
    plain,
    put,
    side,
    tried,
    write,
)
from tests.conformance.message_builders import message


def _everything(place: int) -> LedgerOp:
    """An operation that writes to every table."""
    told = message(id=uid(900 + place))
    row = side("promo", "old", "DEAD")
    new = side("sale", f"s{place}", "SOLD", unique_key=f"k{place}")
    attempt = AttemptNeed("out:ann", 60_000, f"try {place}")

    def decide(book: Book) -> Receipt:
        book.attempt("out:ann", f"try {place}", 5, book.now - 60_000)
        write(book, row)
        book.put(new)
        book.publish(told)
        book.record(f"inner {place}", "", Receipt())
        return Receipt(id=book.post(move(50, id=f"posting {place}")).id)

    return op(
        decide,
        f"key {place}",
        accounts={ANN, STORED_VALUE},
        sides={row.key, new.key},
        holders={SideKey("sale", f"k{place}")},
        keys={f"inner {place}"},
        attempts={attempt},
    )


def _declined() -> LedgerOp:
    def decide(book: Book) -> None:
        book.attempt("out:ann", "declined", 5, book.now - 60_000)
        raise Declined("NO")

    return op(decide, attempts={AttemptNeed("out:ann", 60_000, "declined")})


async def _set_up(store: Store) -> None:
    await done(store, plain(500, id="first"), put(side("promo", "old", "OPEN")))


async def _post(store: Store, clock: ManualClock) -> Call:
    await _set_up(store)
    operations = [
        plain(-9_000, id="poor"),
        _everything(1),
        _declined(),
        plain(7, BOB, id="new"),
        _everything(2),
    ]
    return lambda: store.post(operations)


async def _commit(store: Store, clock: ManualClock) -> Call:
    await _set_up(store)
    effects = Effects(
        jobs=(new_job(id=uid(1)),),
        messages=(message(id=uid(2)),),
        operations=(_everything(1), plain(7, BOB, id="new")),
    )
    return lambda: store.commit(effects)


async def _settle(store: Store, clock: ManualClock) -> Call:
    """A handler's posting, its child and its end."""
    await _set_up(store)
    await join(store)
    await enqueue(store, *(new_job(id=uid(n)) for n in (1, 2)))
    batch = [
        Settlement(
            job=job,
            outcome=Succeeded(),
            keep=60,
            effects=Effects(jobs=(new_job(id=uid(100 + place)),), operations=(_everything(place),)),
        )
        for place, job in enumerate(sorted(await take(store), key=lambda job: job.id))
    ]
    return lambda: store.settle(batch)


async def _lease(store: Store, clock: ManualClock) -> Call:
    rows = [side("promo", f"p{n}", "OPEN", due_at=NOW - n) for n in range(5)]
    await done(store, put(*rows))
    return lambda: store.lease_sides("promo", limit=9, hold=60)


async def _seal(store: Store, clock: ManualClock) -> Call:
    await _set_up(store)
    now = leaves(await store.ledger_accounts())
    await store.save_checkpoint(checkpoint("c1"), now)
    moved = [replace(now[0], number=2), replace(now[0], account="new:earned")]
    return lambda: store.save_checkpoint(checkpoint("c2", prev="c1"), moved)


async def _prune(store: Store, clock: ManualClock) -> Call:
    await _set_up(store)
    await done(store, *(tried("out:ann", f"t{n}", 5, 60_000, []) for n in range(4)))
    clock.advance(10)
    return lambda: store.prune_ledger(
        attempts_before=NOW + 5_000, keys_before=NOW + 5_000, limit=99
    )


async def _trimmed(store: Store) -> Trim:
    """A ledger that is sealed after its first postings; the trim that may begin."""
    await done(store, *(plain(10 + n, ANN, id=f"old{n}") for n in range(3)))
    sealed = checkpoint("c1", posting=3, v=4)
    await store.save_checkpoint(sealed, leaves(await store.ledger_accounts()))
    await done(store, plain(5, BOB, id="late"))
    return Trim(
        number=1,
        checkpoint="c1",
        posting=3,
        until=NOW,
        at=NOW,
        file="a.gz",
        archive="ab",
        kept="cd",
        kid="k",
        signature="s",
    )


async def _keep_whole(store: Store, clock: ManualClock) -> Call:
    await _trimmed(store)
    return lambda: store.keep_postings(1, ["old0", "old2", "none"])


async def _begin_trim(store: Store, clock: ManualClock) -> Call:
    trim = await _trimmed(store)
    return lambda: store.begin_trim(trim, keeps=0)


async def _trim_step(store: Store, clock: ManualClock) -> Call:
    trim = await _trimmed(store)
    await store.keep_postings(1, ["old1"])
    assert await store.begin_trim(trim, keeps=1)
    return lambda: store.trim_postings(limit=5)


SCENARIOS: dict[str, Scenario] = {
    "post": _post,
    "commit": _commit,
    "settle": _settle,
    "lease_sides": _lease,
    "save_checkpoint": _seal,
    "prune_ledger": _prune,
    "keep_postings": _keep_whole,
    "begin_trim": _begin_trim,
    "trim_postings": _trim_step,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    await cut_everywhere(bench, SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    await repeat(bench, SCENARIOS[name])
