"""Every statement of every transition of messages, the log and routers fails once."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.model.announce import BITS, DETAILS, announced
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.job import UniquePolicy
from offpath.model.message import LeasedMessage, MessageFilter, MessageState, NewMessage
from offpath.model.new import NewLogEvent
from offpath.model.route import AttemptStatus, Decisions, Route
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.bench import Bench, Call, Fuse, Scenario, cut_everywhere, repeat
from tests.conformance.builders import (
    ask,
    die,
    enqueue,
    join,
    new_job,
    outcomes,
    take,
    uid,
    unique,
    worker_info,
)
from tests.conformance.log_builders import (
    ROUTER,
    append,
    attempt,
    declare,
    event,
    letter,
    read,
    seize,
)
from tests.conformance.message_builders import (
    dead,
    end_message,
    find_all,
    finish,
    hand,
    hand_one,
    inbound,
    message,
    message_outcomes,
    post,
    request,
)

ALL = announced(BITS, details=True)
assert ALL & DETAILS


def note(number: int, stream: str = "s", **fields: Any) -> NewMessage:
    """A message of a fixed id, so that every run of a scenario makes the same rows."""
    return message(stream, id=uid(number), **fields)


def fact(number: int, **fields: Any) -> NewLogEvent:
    """An event of a fixed id."""
    return event(id=uid(number), **fields)


# -- doors -----------------------------------------------------------------------------------------


async def _commit(store: Store, clock: ManualClock) -> Call:
    """New ones and repeats, in both boxes, with jobs and events."""
    known = inbound("k", id=uid(2))
    await store.commit(Effects(messages=(note(1), known), log=(fact(3),)))
    effects = Effects(
        jobs=(new_job(id=uid(10)), new_job(id=uid(11), announce=ALL)),
        messages=(note(1), note(12, delay=9), inbound("k", id=uid(13)), inbound("l", id=uid(14))),
        log=(fact(3), fact(15, key="a"), fact(16)),
    )
    return lambda: store.commit(effects)


async def _running(store: Store, count: int, **fields: Any) -> list[Any]:
    await join(store)
    await enqueue(store, *(new_job(id=uid(n), **fields) for n in range(1, count + 1)))
    return list(await take(store, limit=count))


async def _settle_jobs(store: Store, clock: ManualClock) -> Call:
    batch = [
        Settlement(
            job=each,
            outcome=Succeeded(),
            effects=Effects(
                jobs=(new_job(id=uid(100 + n), announce=ALL),),
                messages=(note(200 + n), inbound(f"k{n}", id=uid(300 + n))),
                log=(fact(400 + n),),
            ),
        )
        for n, each in enumerate(await _running(store, 3))
    ]
    return lambda: store.settle(batch)


# -- messages --------------------------------------------------------------------------------------


async def _lease_messages(store: Store, clock: ManualClock) -> Call:
    await post(store, *(note(n, delay=n % 3) for n in range(1, 8)))
    clock.advance(2)
    wanted = request(holder="h")
    return lambda: store.lease_messages(wanted)


async def _lease_in_order(store: Store, clock: ManualClock) -> Call:
    """New, retried and expired ones of several keys."""
    await post(store, *(note(n, key="abc"[n % 3]) for n in range(1, 10)))
    (first,) = await hand(store, ordered=True, limit=1, holder="old")
    await end_message(store, first, message_outcomes()["retry"])
    await hand(store, ordered=True, limit=2, holder="lost", lease_seconds=3)
    clock.advance(10)
    wanted = request(holder="h", ordered=True)
    return lambda: store.lease_messages(wanted)


async def _held(store: Store, count: int, **fields: Any) -> tuple[LeasedMessage, ...]:
    await post(store, *(note(n, **fields) for n in range(1, count + 1)))
    return await hand(store, holder="h")


async def _settle_messages(store: Store, clock: ManualClock) -> Call:
    kinds = list(message_outcomes().values())
    held = await _held(store, 8, key="k")
    batch = [finish(each, kinds[n % 4], keep=60) for n, each in enumerate(held)]
    return lambda: store.settle_messages(batch)


async def _settle_messages_with_effects(store: Store, clock: ManualClock) -> Call:
    await post(store, inbound("k0", id=uid(50)))
    batch = [
        finish(
            each,
            effects=Effects(
                jobs=(new_job(id=uid(100 + n), announce=ALL),),
                messages=(note(200 + n, "webhook:a"), inbound(f"k{n}", id=uid(300 + n))),
                log=(fact(400 + n),),
            ),
        )
        for n, each in enumerate(await _held(store, 3))
    ]
    return lambda: store.settle_messages(batch)


async def _settle_messages_with_poison(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, new_job("held", id=uid(50), unique=unique("k")))
    refuse = unique("k", policy=UniquePolicy.REFUSE)
    batch = [
        finish(
            each,
            effects=Effects(
                jobs=(new_job(id=uid(100 + n), unique=refuse if n == 1 else None),),
                messages=(note(200 + n, "out"),),
            ),
        )
        for n, each in enumerate(await _held(store, 3))
    ]
    return lambda: store.settle_messages(batch)


async def _revive(store: Store, clock: ManualClock) -> Call:
    held = await _held(store, 4, key="k")
    await store.settle_messages([finish(held[0], dead()), finish(held[1], keep=60)])
    clock.advance(5)
    return lambda: store.revive_messages([uid(n) for n in range(1, 6)])


async def _delete(store: Store, clock: ManualClock) -> Call:
    held = await _held(store, 4)
    await store.settle_messages([finish(held[0], dead()), finish(held[1], keep=60)])
    return lambda: store.delete_messages([uid(n) for n in range(1, 6)])


async def _prune(store: Store, clock: ManualClock) -> Call:
    held = await _held(store, 4)
    await store.settle_messages([finish(held[0], keep=5), finish(held[1], dead(), keep=5)])
    await join(store, "gone")
    await store.deregister("gone")
    clock.advance(3_601)
    return lambda: store.prune(limit=10)


# -- endpoints -------------------------------------------------------------------------------------

ENDPOINT = Endpoint(name="a", url="https://example.org/", secrets=("whsec_1",))


async def _put_endpoint(store: Store, clock: ManualClock) -> Call:
    return lambda: store.put_endpoint(ENDPOINT)


async def _replace_endpoint(store: Store, clock: ManualClock) -> Call:
    await store.put_endpoint(ENDPOINT)
    await store.note_endpoint(EndpointNote(name="a", delivered=False, block=9))
    other = Endpoint(name="a", url="https://example.com/", secrets=("whsec_2", "whsec_1"))
    return lambda: store.put_endpoint(other)


async def _set_endpoint(store: Store, clock: ManualClock) -> Call:
    await store.put_endpoint(ENDPOINT)
    await store.note_endpoint(EndpointNote(name="a", delivered=False, disable="gone"))
    return lambda: store.set_endpoint("a", EndpointState.ENABLED, None)


async def _note_a_failure(store: Store, clock: ManualClock) -> Call:
    await store.put_endpoint(ENDPOINT)
    failed = EndpointNote(name="a", delivered=False, block=9, disable="gone")
    return lambda: store.note_endpoint(failed)


async def _note_a_success(store: Store, clock: ManualClock) -> Call:
    await store.put_endpoint(ENDPOINT)
    await store.note_endpoint(EndpointNote(name="a", delivered=False, block=9))
    return lambda: store.note_endpoint(EndpointNote(name="a", delivered=True))


async def _delete_endpoint(store: Store, clock: ManualClock) -> Call:
    await store.put_endpoint(ENDPOINT)
    return lambda: store.delete_endpoint("a")


# -- routers ---------------------------------------------------------------------------------------

ROUTES = (Route(name="one"), Route(name="two", type="t"))


async def _declare(store: Store, clock: ManualClock) -> Call:
    await append(store, fact(1))
    return lambda: declare(store, partitions=3, start="now", routes=ROUTES)


async def _declare_more(store: Store, clock: ManualClock) -> Call:
    await declare(store, routes=ROUTES[:1])
    routes = (Route(name="one", deliver="new"), *ROUTES[1:])
    return lambda: declare(store, routes=routes)


async def _open_gate(store: Store, clock: ManualClock) -> Call:
    await declare(store)
    return lambda: store.set_gate(ROUTER, opened=True)


async def _close_master(store: Store, clock: ManualClock) -> Call:
    await store.set_gate(None, opened=True)
    return lambda: store.set_gate(None, opened=False)


async def _set_route(store: Store, clock: ManualClock) -> Call:
    await declare(store, routes=ROUTES)
    return lambda: store.set_route(ROUTER, "one", enabled=True, dry_run=False)


async def _lease_cursor(store: Store, clock: ManualClock) -> Call:
    await declare(store)
    await seize(store, holder="lost")
    clock.advance(31)
    return lambda: store.lease_cursor(ROUTER, 0, "h", lease_seconds=30)


async def _decided(store: Store) -> tuple[Any, Decisions]:
    """A cursor in hand, and what is to be written about two events."""
    await declare(store)
    await append(store, fact(1), fact(2))
    cursor = await seize(store)
    one, two = (await read(store)).events
    decisions = Decisions(
        position=two.position,
        attempts=(attempt(one), attempt(two, AttemptStatus.FAILED)),
        letters=(letter(two, id=uid(3)),),
        effects=Effects(
            jobs=(new_job(id=uid(4), announce=ALL),),
            messages=(note(5),),
            log=(fact(6, domain="x"),),
        ),
        passed=2,
        summary="{}",
    )
    return cursor, decisions


async def _advance(store: Store, clock: ManualClock) -> Call:
    cursor, decisions = await _decided(store)
    return lambda: store.advance(cursor, decisions)


async def _release_cursor(store: Store, clock: ManualClock) -> Call:
    await declare(store)
    cursor = await seize(store)
    return lambda: store.release_cursor(cursor)


async def _move_cursor(store: Store, clock: ManualClock) -> Call:
    cursor, decisions = await _decided(store)
    await store.advance(cursor, decisions)
    return lambda: store.move_cursor(ROUTER, 0, 0)


async def _replay(store: Store, clock: ManualClock) -> Call:
    cursor, decisions = await _decided(store)
    await store.advance(cursor, decisions)
    (made,) = await store.letters(ROUTER)
    again = attempt(made.event, number=2)
    effects = Effects(messages=(note(7),), jobs=(new_job(id=uid(8)),), log=(fact(9, domain="x"),))
    return lambda: store.record_replay(made, again, resolution="sent", effects=effects)


async def _resolve(store: Store, clock: ManualClock) -> Call:
    cursor, decisions = await _decided(store)
    await store.advance(cursor, decisions)
    return lambda: store.resolve_letter(uid(3), "by hand")


async def _trim(store: Store, clock: ManualClock) -> Call:
    cursor, decisions = await _decided(store)
    await store.advance(cursor, decisions)
    clock.advance(60)
    before = clock.now()
    return lambda: store.trim_log(before=before, limit=10)


# -- announced changes -----------------------------------------------------------------------------


async def _announced_lease(store: Store, clock: ManualClock) -> Call:
    await join(store)
    await enqueue(store, *(new_job(id=uid(n), announce=ALL) for n in range(1, 5)))
    return lambda: ask(store)


async def _announced_settle(store: Store, clock: ManualClock) -> Call:
    kinds = list(outcomes().values())
    held = await _running(store, 6, announce=ALL)
    batch = [Settlement(job=each, outcome=kinds[n], keep=60) for n, each in enumerate(held)]
    return lambda: store.settle(batch)


async def _announced_cancel(store: Store, clock: ManualClock) -> Call:
    await _running(store, 1, announce=ALL)
    await enqueue(
        store, new_job(id=uid(2), announce=ALL), new_job(id=uid(3), announce=ALL, delay=9)
    )
    return lambda: store.cancel([uid(n) for n in (1, 2, 3)])


async def _announced_redrive(store: Store, clock: ManualClock) -> Call:
    for each in await _running(store, 2, announce=ALL):
        await die(store, each)
    return lambda: store.redrive([JobRedrive(id=uid(n)) for n in (1, 2)])


async def _announced_rescue(store: Store, clock: ManualClock) -> Call:
    """One runs again, one is cancelled as asked."""
    await _running(store, 2, announce=ALL)
    await store.cancel([uid(2)])
    clock.advance(31)
    return lambda: store.rescue(limit=10, max_deliveries=3)


async def _announced_loss(store: Store, clock: ManualClock) -> Call:
    await _running(store, 2, announce=ALL)
    clock.advance(31)
    return lambda: store.rescue(limit=10, max_deliveries=1)


async def _report(store: Store, clock: ManualClock) -> Call:
    await join(store)
    return lambda: store.extend(worker_info(), lease_seconds=60, held=[], report="{}")


SCENARIOS: dict[str, Scenario] = {
    "commit": _commit,
    "settle jobs": _settle_jobs,
    "lease messages": _lease_messages,
    "lease in order": _lease_in_order,
    "settle messages": _settle_messages,
    "settle messages with effects": _settle_messages_with_effects,
    "settle messages with poison": _settle_messages_with_poison,
    "revive": _revive,
    "delete": _delete,
    "prune": _prune,
    "put endpoint": _put_endpoint,
    "replace endpoint": _replace_endpoint,
    "set endpoint": _set_endpoint,
    "note a failure": _note_a_failure,
    "note a success": _note_a_success,
    "delete endpoint": _delete_endpoint,
    "declare": _declare,
    "declare more": _declare_more,
    "open gate": _open_gate,
    "close master": _close_master,
    "set route": _set_route,
    "lease cursor": _lease_cursor,
    "advance": _advance,
    "release cursor": _release_cursor,
    "move cursor": _move_cursor,
    "replay": _replay,
    "resolve": _resolve,
    "trim": _trim,
    "announced lease": _announced_lease,
    "announced settle": _announced_settle,
    "announced cancel": _announced_cancel,
    "announced redrive": _announced_redrive,
    "announced rescue": _announced_rescue,
    "announced loss": _announced_loss,
    "report": _report,
}
_PIECEWISE = "settle messages with poison"
REPEATABLE = [name for name in SCENARIOS if name != "note a failure"]
"""A failure that is noted twice counts twice: the health of an endpoint is not a fact."""


async def _each_settlement_is_whole(store: Store) -> None:
    """A message has its effects if, and only if, it is done."""
    done = {each.id for each in await find_all(store, MessageFilter(states=(MessageState.DONE,)))}
    out = {each.id for each in await find_all(store, MessageFilter(streams=("out",)))}
    jobs = await store.states([uid(100 + n) for n in range(3)])
    for n in range(3):
        whole = uid(n + 1) in done
        assert ((uid(100 + n) in jobs), (uid(200 + n) in out)) == (whole, whole)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    whole = _each_settlement_is_whole if name == _PIECEWISE else None
    await cut_everywhere(bench, SCENARIOS[name], piecewise=whole)


@pytest.mark.parametrize("name", REPEATABLE)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    """Cases H5: the call was carried out, nobody heard of it, and it is made again."""
    await repeat(bench, SCENARIOS[name])


async def test_a_cut_lease_is_in_nobodys_way(bench: Bench) -> None:
    call = await bench.set_up(_lease_in_order)
    for place in (1, 2, 3):
        await bench.cut(call, Fuse(place))
    bench.clock.advance(60)
    answer = await call()
    assert len(answer.messages) == 9
    for each in answer.messages:
        await end_message(bench.store, each)
    await post(bench.store, note(20))
    assert (await hand_one(bench.store)).id == uid(20)
