"""Posts to endpoints: the last twenty of each are kept, whoever wrote them."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

from offpath.model.endpoint import Endpoint
from offpath.model.post import MOST_POSTS, PostOutcome, PostRecord
from offpath.store.protocol import Store
from tests.conformance.builders import START


def post(number: int = 0, endpoint: str = "a", **fields: Any) -> PostRecord:
    fields.setdefault("outcome", PostOutcome.DELIVERED)
    fields.setdefault("status", 200)
    return PostRecord(
        endpoint=endpoint,
        message=f"m-{number}",
        at=START + timedelta(seconds=number),
        seconds=0.125,
        **fields,
    )


async def added(store: Store, *names: str) -> None:
    """Endpoints of these names."""
    for name in names:
        await store.put_endpoint(Endpoint(name=name, url="https://a.example/", secrets=()))


async def numbers(store: Store, endpoint: str = "a") -> list[int]:
    return [int(one.message.removeprefix("m-")) for one in await store.posts(endpoint)]


async def test_a_post_is_kept_as_it_went(store: Store) -> None:
    await added(store, "a", "ä 'quoted' 😀")
    assert await store.posts("a") == []
    failed = post(
        3, outcome=PostOutcome.REFUSED, status=None, why="no answer", topic="ö", attempt=4
    )
    odd = post(1, "ä 'quoted' 😀")
    await store.put_posts([failed, odd])
    assert await store.posts("a") == [failed]
    assert await store.posts("ä 'quoted' 😀") == [odd]


async def test_the_newest_twenty_of_each_are_kept_by_time(store: Store) -> None:
    await added(store, "a", "b")
    shuffled = [post(number) for number in range(50)]
    random.Random(7).shuffle(shuffled)
    for start in range(0, 50, 9):
        await store.put_posts([*shuffled[start : start + 9], post(start, "b")])
    assert await numbers(store) == list(range(49, 49 - MOST_POSTS, -1))
    assert await numbers(store, "b") == [45, 36, 27, 18, 9, 0]


async def test_one_that_is_told_again_is_kept_once(store: Store) -> None:
    await added(store, "a")
    for _ in range(2):
        await store.put_posts([post(1), post(2), post(1)])
    assert await numbers(store) == [2, 1]
    await store.put_posts([post(1, attempt=2)])
    assert await numbers(store) == [2, 1, 1]


async def test_of_an_unknown_endpoint_nothing_is_kept(store: Store) -> None:
    await added(store, "a")
    await store.put_posts([])
    await store.put_posts([post(1, "gone"), post(2)])
    assert await store.posts("gone") == []
    assert await numbers(store) == [2]
    await added(store, "gone")
    assert await store.posts("gone") == []


async def test_they_go_with_their_endpoint_and_stay_when_it_changes(store: Store) -> None:
    await added(store, "a")
    await store.put_posts([post(1)])
    await added(store, "a")
    assert await numbers(store) == [1]
    assert await store.delete_endpoint("a")
    assert await store.posts("a") == []
    await added(store, "a")
    assert await store.posts("a") == []


async def test_those_who_write_at_once_lose_none_of_each_others(rivals: tuple[Store, ...]) -> None:
    await added(rivals[0], "a", "b")
    await asyncio.gather(
        *(
            rival.put_posts([post(10 * turn + place, name) for name in order])
            for place, rival in enumerate(rivals)
            for turn, order in enumerate((("a", "b"), ("b", "a")))
        )
    )
    told = sorted(10 * turn + place for place in range(len(rivals)) for turn in range(2))
    assert sorted(await numbers(rivals[0])) == told
    assert sorted(await numbers(rivals[0], "b")) == told
