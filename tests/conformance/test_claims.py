"""Names that one holder has in the whole fleet."""

from __future__ import annotations

import asyncio

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store


async def test_the_first_has_it_and_may_ask_again(store: Store) -> None:
    assert await store.claim("key", "a")
    assert not await store.claim("key", "b")
    assert await store.claim("key", "a")
    assert not await store.claim("key", "b")


async def test_names_are_apart(store: Store) -> None:
    assert await store.claim("key", "a")
    assert await store.claim("Key", "b")
    assert await store.claim("key ", "c")


async def test_without_a_ttl_it_is_for_good(store: Store, clock: ManualClock) -> None:
    await store.claim("key", "a")
    clock.advance(9 * 365 * 86_400)
    await store.prune(limit=100)
    assert not await store.claim("key", "b")


async def test_after_its_ttl_it_is_free(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=60)
    clock.advance(59)
    assert not await store.claim("key", "b", ttl=60)
    clock.advance(1.5)
    assert await store.claim("key", "b", ttl=60)
    assert not await store.claim("key", "a", ttl=60)


async def test_asking_again_does_not_stretch_it(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=60)
    clock.advance(40)
    assert await store.claim("key", "a", ttl=60)
    clock.advance(21)
    assert await store.claim("key", "b", ttl=60)


async def test_renewing_stretches_it_for_its_holder_alone(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=60)
    clock.advance(40)
    assert not await store.claim("key", "b", ttl=600, renew=True)
    assert await store.claim("key", "a", ttl=60, renew=True)
    clock.advance(59)
    assert not await store.claim("key", "b", ttl=60)
    clock.advance(1.5)
    assert await store.claim("key", "b", ttl=60)
    assert not await store.claim("key", "a", ttl=60, renew=True)


async def test_renewing_makes_a_claim_where_there_is_none(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=5, renew=True)
    clock.advance(6)
    assert await store.claim("key", "a", ttl=60, renew=True)
    clock.advance(59)
    assert not await store.claim("key", "b")


async def test_the_holder_may_claim_it_anew_after_the_ttl(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=60)
    clock.advance(61)
    assert await store.claim("key", "a", ttl=60)
    clock.advance(59)
    assert not await store.claim("key", "b")


async def test_a_holder_may_give_it_back(store: Store, clock: ManualClock) -> None:
    assert await store.claim("key", "a", ttl=60)
    assert await store.claim("other", "a", ttl=60)
    assert not await store.release_claim("key", "b")
    assert not await store.claim("key", "b", ttl=60)
    assert await store.release_claim("key", "a")
    assert not await store.release_claim("key", "a")
    assert await store.claim("key", "b", ttl=60)
    assert not await store.claim("other", "b", ttl=60)
    clock.advance(59)
    assert not await store.claim("key", "a", ttl=60)


async def test_what_another_took_after_its_time_is_not_given_back(
    store: Store, clock: ManualClock
) -> None:
    assert await store.claim("key", "a", ttl=5)
    clock.advance(6)
    assert await store.claim("key", "b", ttl=60)
    assert not await store.release_claim("key", "a")
    assert not await store.claim("key", "c", ttl=60)


async def test_pruning_takes_only_what_is_free(store: Store, clock: ManualClock) -> None:
    await store.claim("short", "a", ttl=10)
    await store.claim("long", "a", ttl=100)
    clock.advance(11)
    assert (await store.prune(limit=100)).total == 0
    assert await store.claim("short", "b")
    assert not await store.claim("long", "b")


async def test_of_many_at_once_one_has_it(rivals: tuple[Store, ...]) -> None:
    for n in range(5):
        answers = await asyncio.gather(
            *(rivals[k % 4].claim(f"key {n}", f"holder {k}", ttl=60) for k in range(16))
        )
        assert sum(answers) == 1
        again = await asyncio.gather(
            *(rivals[k % 4].claim(f"key {n}", f"holder {k}", ttl=60) for k in range(16))
        )
        assert again == answers
