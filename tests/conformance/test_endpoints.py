"""Endpoints: added and replaced by name, switched by operators, and judged by how posts went."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.protocol import Store
from tests.conformance.builders import START
from tests.conformance.message_builders import hand, ids, put

ENABLED, PAUSED, DISABLED = EndpointState.ENABLED, EndpointState.PAUSED, EndpointState.DISABLED


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def endpoint(name: str = "a", **fields: Any) -> Endpoint:
    fields.setdefault("url", "https://example.org/hook")
    fields.setdefault("secrets", ("whsec_one", "whsec_two"))
    return Endpoint(name=name, **fields)


async def one(store: Store, name: str = "a") -> Endpoint:
    """The endpoint of this name, which must exist."""
    (found,) = [each for each in await store.endpoints() if each.name == name]
    return found


async def note(store: Store, *, delivered: bool = False, **fields: Any) -> Endpoint:
    """Note how a post to the endpoint went, which must exist."""
    answer = await store.note_endpoint(EndpointNote(name="a", delivered=delivered, **fields))
    assert answer is not None
    assert await one(store) == answer
    return answer


async def test_nobody_is_there_at_first(store: Store) -> None:
    assert await store.endpoints() == []


async def test_an_endpoint_is_kept_as_it_was_added(store: Store, clock: ManualClock) -> None:
    clock.advance(3)
    new = endpoint(
        "ä 'quoted' 😀",
        url="https://example.org/?a=1&b=%20",
        topics=("job.*", "paid"),
        streams=("wallet", "*"),
        headers='{"X-A":"1"}',
        trace=False,
    )
    assert await store.put_endpoint(new)
    assert await store.endpoints() == [replace(new, created_at=at(3))]


async def test_endpoints_are_listed_by_name(store: Store) -> None:
    for name in ("b", "c", "a"):
        await store.put_endpoint(endpoint(name))
    assert [each.name for each in await store.endpoints()] == ["a", "b", "c"]


async def test_replacing_one_keeps_its_state_and_health(store: Store, clock: ManualClock) -> None:
    assert await store.put_endpoint(endpoint())
    await store.put_endpoint(endpoint("b"))
    await note(store, block=60)
    await store.set_endpoint("a", PAUSED, "window")
    before = await one(store)
    clock.advance(9)
    new = endpoint(
        url="https://other.example/",
        secrets=("whsec_new",),
        topics=("x",),
        streams=("s",),
        headers='{"X-B":"2"}',
        trace=False,
    )
    assert not await store.put_endpoint(new)
    assert await one(store) == replace(
        before,
        url=new.url,
        secrets=new.secrets,
        topics=new.topics,
        streams=new.streams,
        headers=new.headers,
        trace=False,
    )
    assert (before.state, before.failures, before.created_at) == (PAUSED, 1, START)
    assert (await one(store, "b")).url == endpoint("b").url


async def test_putting_the_same_again_changes_nothing(store: Store, clock: ManualClock) -> None:
    await store.put_endpoint(endpoint())
    before = await store.endpoints()
    clock.advance(5)
    assert not await store.put_endpoint(endpoint())
    assert await store.endpoints() == before


async def test_of_those_who_add_it_at_once_one_is_told_that_it_is_new(
    rivals: tuple[Store, ...],
) -> None:
    answers = await asyncio.gather(*(rival.put_endpoint(endpoint()) for rival in rivals))
    assert answers.count(True) == 1
    assert len(await rivals[0].endpoints()) == 1


@pytest.mark.parametrize("state", [PAUSED, DISABLED])
async def test_an_operator_stops_one_and_starts_it_afresh(
    store: Store, clock: ManualClock, state: EndpointState
) -> None:
    await store.put_endpoint(endpoint())
    await note(store, block=60)
    assert await store.set_endpoint("a", state, "because")
    stopped = await one(store)
    assert (stopped.state, stopped.reason) == (state, "because")
    assert (stopped.failures, stopped.failing_since, stopped.blocked_until) == (1, START, at(60))
    assert await store.set_endpoint("a", ENABLED, None)
    started = await one(store)
    assert (started.state, started.reason) == (ENABLED, None)
    assert (started.failures, started.failing_since, started.blocked_until) == (0, None, None)


async def test_enabling_what_is_enabled_clears_its_health_too(store: Store) -> None:
    await store.put_endpoint(endpoint())
    await note(store, block=60)
    assert await store.set_endpoint("a", ENABLED, None)
    now = await one(store)
    assert (now.failures, now.failing_since, now.blocked_until) == (0, None, None)


async def test_an_unknown_endpoint_is_told(store: Store) -> None:
    await store.put_endpoint(endpoint("other"))
    before = await store.endpoints()
    assert not await store.set_endpoint("a", PAUSED, None)
    assert await store.note_endpoint(EndpointNote(name="a", delivered=False)) is None
    assert not await store.delete_endpoint("a")
    assert await store.endpoints() == before


async def test_failures_count_from_the_first_until_a_success(
    store: Store, clock: ManualClock
) -> None:
    await store.put_endpoint(endpoint())
    clock.advance(1)
    first = await note(store)
    clock.advance(1)
    second = await note(store)
    assert (first.failures, first.failing_since) == (1, at(1))
    assert (second.failures, second.failing_since) == (2, at(1))
    good = await note(store, delivered=True)
    assert (good.failures, good.failing_since, good.blocked_until) == (0, None, None)
    clock.advance(1)
    again = await note(store)
    assert (again.failures, again.failing_since) == (1, at(3))


async def test_a_block_only_ever_moves_later(store: Store, clock: ManualClock) -> None:
    await store.put_endpoint(endpoint())
    assert (await note(store, block=60)).blocked_until == at(60)
    clock.advance(10)
    assert (await note(store, block=20)).blocked_until == at(60)
    assert (await note(store)).blocked_until == at(60)
    assert (await note(store, block=51)).blocked_until == at(61)
    assert (await note(store, delivered=True)).blocked_until is None


async def test_an_endpoint_that_says_it_is_gone_is_disabled(store: Store) -> None:
    await store.put_endpoint(endpoint())
    gone = await note(store, disable="it answered 410")
    assert (gone.state, gone.reason, gone.failures) == (DISABLED, "it answered 410", 1)
    still = await note(store, disable="another reason")
    assert (still.state, still.reason) == (DISABLED, "it answered 410")


async def test_a_paused_one_is_not_disabled_by_a_late_answer(store: Store) -> None:
    await store.put_endpoint(endpoint())
    await store.set_endpoint("a", PAUSED, "window")
    late = await note(store, disable="gone")
    assert (late.state, late.reason) == (PAUSED, "window")


@pytest.mark.parametrize("state", [PAUSED, DISABLED])
async def test_a_late_success_does_not_start_a_stopped_one(
    store: Store, state: EndpointState
) -> None:
    await store.put_endpoint(endpoint())
    await store.set_endpoint("a", state, "why")
    late = await note(store, delivered=True)
    assert (late.state, late.reason) == (state, "why")


async def test_notes_at_once_are_all_counted(rivals: tuple[Store, ...]) -> None:
    await rivals[0].put_endpoint(endpoint())
    failed = EndpointNote(name="a", delivered=False, block=5)
    await asyncio.gather(*(rival.note_endpoint(failed) for rival in rivals for _ in range(5)))
    assert (await one(rivals[0])).failures == 20


async def test_messages_stay_when_their_endpoint_goes(store: Store) -> None:
    await store.put_endpoint(endpoint())
    waiting = await put(store, "webhook:a")
    assert await store.delete_endpoint("a")
    assert not await store.delete_endpoint("a")
    assert await store.endpoints() == []
    assert ids(await hand(store, "webhook:a")) == [waiting]


async def test_an_endpoint_added_again_is_fresh(store: Store, clock: ManualClock) -> None:
    await store.put_endpoint(endpoint())
    await note(store, disable="gone")
    await store.delete_endpoint("a")
    clock.advance(4)
    assert await store.put_endpoint(endpoint())
    assert await one(store) == replace(endpoint(), created_at=at(4))


async def test_secrets_are_not_shown(store: Store) -> None:
    await store.put_endpoint(endpoint())
    assert "whsec_" not in repr(await store.endpoints())


async def test_who_waits_for_messages_is_told_when_an_endpoint_is_enabled(store: Store) -> None:
    told: list[Hint] = []
    await store.put_endpoint(endpoint(state=PAUSED))
    stop = store.listen(told.append)
    await store.set_endpoint("a", ENABLED, None)
    await asyncio.sleep(0)
    stop()
    assert Hint.MESSAGES in told
