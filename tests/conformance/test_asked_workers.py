"""What operators ask of workers: heard with the next heartbeat or look, answered once."""

from __future__ import annotations

from datetime import timedelta

from offpath.model.lease import (
    LONGEST_ANSWER,
    MOST_ASKED,
    WorkerAnswer,
    WorkerAsk,
    WorkerDesk,
    WorkerRequest,
)
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.protocol import Store
from tests.conformance.builders import LEASE, START, fresh_id, join, start, worker_info

STOP, DUMP = WorkerRequest.STOP, WorkerRequest.DUMP


def ask(request: WorkerRequest = DUMP) -> WorkerAsk:
    """A new request."""
    return WorkerAsk(id=fresh_id(), request=request)


def answer(to: WorkerAsk, text: str = "") -> WorkerAnswer:
    """The answer to it."""
    return WorkerAnswer(id=to.id, request=to.request, text=text)


async def test_a_worker_hears_of_requests_in_their_order(store: Store) -> None:
    await join(store)
    job = await start(store)
    first, second = ask(), ask(STOP)
    assert await store.ask_worker("w1", first)
    assert await store.ask_worker("w1", second)
    beat = await store.extend(worker_info(), lease_seconds=LEASE, held=[job])
    look = await store.signals("w1", [job])
    empty = await store.signals("w1", [])
    assert beat.asked == look.asked == empty.asked == (first, second)
    assert beat.alive
    assert (beat.cancelled, beat.lost) == ((), ())


async def test_an_answer_is_kept_with_the_worker_and_ends_the_request(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    first, second = ask(), ask(STOP)
    for one in (first, second):
        await store.ask_worker("w1", one)
    clock.advance(2)
    assert await store.answer_worker("w1", answer(first, "where it is: ✓"))
    assert not await store.answer_worker("w1", answer(first, "again"))
    told = await store.worker_desk("w1")
    assert told == WorkerDesk(
        asked=(second,),
        answer=WorkerAnswer(
            id=first.id, request=DUMP, text="where it is: ✓", at=START + timedelta(seconds=2)
        ),
    )
    assert (await store.extend(worker_info(), lease_seconds=LEASE, held=[])).asked == (second,)
    await store.answer_worker("w1", answer(second))
    assert (await store.signals("w1", [])).asked == ()


async def test_a_repeat_asks_nothing_twice(store: Store) -> None:
    await join(store)
    one = ask()
    assert [await store.ask_worker("w1", one) for _ in range(2)] == [True, True]
    assert (await store.signals("w1", [])).asked == (one,)
    await store.answer_worker("w1", answer(one))
    assert await store.ask_worker("w1", one)
    assert (await store.signals("w1", [])).asked == ()


async def test_nothing_is_asked_of_whom_there_is_not(store: Store) -> None:
    await join(store)
    await store.deregister("w1")
    assert not await store.ask_worker("w1", ask())
    assert not await store.ask_worker("nobody", ask())
    assert await store.worker_desk("nobody") is None
    assert not await store.answer_worker("nobody", answer(ask()))


async def test_only_so_many_requests_wait(store: Store) -> None:
    await join(store)
    several = [ask() for _ in range(MOST_ASKED + 1)]
    assert [await store.ask_worker("w1", one) for one in several] == [True] * MOST_ASKED + [False]
    assert await store.ask_worker("w1", several[0])


async def test_a_long_answer_is_cut(store: Store) -> None:
    await join(store)
    one = ask()
    await store.ask_worker("w1", one)
    await store.answer_worker("w1", answer(one, "é" * (LONGEST_ANSWER + 5)))
    told = await store.worker_desk("w1")
    assert told is not None
    assert told.answer is not None
    assert told.answer.text == "é" * LONGEST_ANSWER


async def test_a_request_wakes_whoever_listens(store: Store) -> None:
    await join(store)
    heard: list[Hint] = []
    stop = store.listen(heard.append)
    await store.ask_worker("w1", ask())
    if store.capabilities.name == "memory":
        assert Hint.CANCEL in heard
    stop()
