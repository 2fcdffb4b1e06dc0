"""The batcher: many callers, one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from offpath.economy.ledger.batcher import Batcher
from offpath.errors import StoreBusy, StoreRejected, StoreUnavailable
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.faults import LedgerError, StoreFailed
from offpath.model.ledger.records import Receipt


def op(key: str) -> LedgerOp:
    def decide(_: Book) -> Receipt:
        return Receipt(id=key)

    return LedgerOp(decide=decide, key=key)


class Store:
    """Notes the batches; refuses those with a poisonous key; waits where it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.poison: set[str] = set()
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.busy = asyncio.Event()

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        keys = [str(one.key) for one in operations]
        self.batches.append(keys)
        self.busy.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        if self.poison & set(keys):
            raise StoreRejected("no")
        return [Decided(receipt=Receipt(id=key)) for key in keys]


async def test_a_lone_operation_goes_at_once_and_the_rest_together() -> None:
    store = Store()
    batcher = Batcher(store.post, 128)
    store.open.clear()
    first = batcher.submit(op("a"))
    await store.busy.wait()
    others = [batcher.submit(op(key)) for key in "bcd"]
    await asyncio.sleep(0)
    store.open.set()
    answers = await asyncio.gather(first, *others)
    assert [str(one.receipt.id) for one in answers if one.receipt] == ["a", "b", "c", "d"]
    assert store.batches == [["a"], ["b", "c", "d"]]
    await batcher.idle()


async def test_a_batch_is_bounded() -> None:
    store = Store()
    batcher = Batcher(store.post, 2)
    await asyncio.gather(*(batcher.submit(op(key)) for key in "abcde"))
    assert store.batches == [["a", "b"], ["c", "d"], ["e"]]


async def test_what_the_store_refuses_whole_is_tried_in_halves() -> None:
    store = Store()
    store.poison = {"c"}
    batcher = Batcher(store.post, 128)
    submitted = [batcher.submit(op(key)) for key in "abcdefg"]
    answers = await asyncio.gather(*submitted, return_exceptions=True)
    kinds = [isinstance(one, Decided) for one in answers]
    assert kinds == [True, True, False, True, True, True, True]
    refused = answers[2]
    assert isinstance(refused, StoreFailed)
    assert not refused.retryable
    assert isinstance(refused.__cause__, StoreRejected)


@pytest.mark.parametrize(
    "error", [StoreBusy("busy"), StoreUnavailable("gone"), RuntimeError("what")]
)
async def test_a_store_that_fails_is_a_fault_that_may_be_repeated(error: Exception) -> None:
    store = Store()
    store.error = error
    batcher = Batcher(store.post, 128)
    results = await asyncio.gather(
        *(batcher.submit(op(key)) for key in "ab"), return_exceptions=True
    )
    for result in results:
        assert isinstance(result, StoreFailed)
        assert result.retryable
        assert result.__cause__ is error
    assert results[0] is not results[1]
    store.error = None
    assert (await batcher.submit(op("a"))).receipt == Receipt(id="a")


async def test_a_fault_of_the_ledger_comes_as_it_is() -> None:
    store = Store()
    store.error = LedgerError("broken")
    with pytest.raises(LedgerError, match="broken") as raised:
        await Batcher(store.post, 128).submit(op("a"))
    assert raised.value.code == LedgerError.code


async def test_a_cancelled_caller_costs_the_others_nothing() -> None:
    store = Store()
    batcher = Batcher(store.post, 128)
    store.open.clear()
    under_way = batcher.submit(op("a"))
    await store.busy.wait()
    waiting = [batcher.submit(op(key)) for key in "bcd"]
    await asyncio.sleep(0)
    under_way.cancel()
    waiting[1].cancel()
    await asyncio.sleep(0)
    store.open.set()
    answers = await asyncio.gather(waiting[0], waiting[2])
    assert all(one.receipt is not None for one in answers)
    assert under_way.cancelled()
    assert store.batches == [["a"], ["b", "d"]]


async def test_who_waits_is_told_when_the_batcher_is_stopped() -> None:
    store = Store()
    batcher = Batcher(store.post, 1)
    store.open.clear()
    answers = [batcher.submit(op(key)) for key in "ab"]
    await store.busy.wait()
    assert batcher._flushing is not None
    batcher._flushing.cancel()
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(result) for result in results] == [StoreFailed, StoreFailed]
    assert all(getattr(result, "retryable", False) for result in results)
    store.open.set()
    assert (await batcher.submit(op("a"))).receipt == Receipt(id="a")


def test_another_loop_begins_anew() -> None:
    store_open = False

    async def post(operations: Sequence[LedgerOp]) -> list[Decided]:
        if not store_open:
            await asyncio.get_running_loop().create_future()
        return [Decided(receipt=Receipt(id=str(one.key))) for one in operations]

    batcher = Batcher(post, 1)
    first = asyncio.new_event_loop()

    async def leave() -> None:
        for key in "ab":
            batcher.submit(op(key))
        await asyncio.sleep(0)

    first.run_until_complete(leave())
    left = asyncio.all_tasks(first)
    store_open = True

    async def ask() -> Decided:
        return await batcher.submit(op("c"))

    assert asyncio.run(ask()).receipt == Receipt(id="c")
    for task in left:
        task.cancel()
    first.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    first.close()
