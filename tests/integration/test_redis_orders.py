"""The other orders of ready jobs on Redis: who asks for one pays for it, and nobody else does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import redis

from offpath.errors import StoreRejected, UniqueConflict
from offpath.model.amendment import Amendment
from offpath.model.effects import Effects
from offpath.model.job import JobFilter, JobState, LeasedJob, UniqueClaim, UniquePolicy
from offpath.model.lease import LeaseRequest, Order
from offpath.model.settlement import Outcome, Released, Retry, Settlement, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive
from offpath.store.redis import RedisStore
from tests.conformance.builders import START, failure, new_job, worker_info
from tests.integration.redis_servers import Servers, client, started

LANE = "7:defaultt"
AGE, BALANCED = f"age:{LANE}", f"balanced:{LANE}"
P = "{offpath}:"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def asking(servers: Servers) -> Iterator[redis.Redis]:
    """A client that looks behind the store's back."""
    with client(started(servers)) as asking:
        yield asking


@pytest.fixture
async def store(
    servers: Servers, asking: redis.Redis, clock: ManualClock
) -> AsyncIterator[RedisStore]:
    store = RedisStore(servers[0].url, clock=clock)
    await store.open()
    await store.register(worker_info("w1"), lease_seconds=30)
    yield store
    await store.close()


async def take(store: RedisStore, order: Order, limit: int = 3) -> list[LeasedJob]:
    request = LeaseRequest(worker="w1", limit=limit, tasks={"t": limit}, order=order)
    return list((await store.lease(request)).jobs)


def orders(asking: redis.Redis) -> set[str]:
    return {each.decode() for each in asking.smembers(f"{P}ol") if isinstance(each, bytes)}


async def test_nobody_pays_for_an_order_that_nobody_asks_for(
    store: RedisStore, asking: redis.Redis
) -> None:
    await store.commit(Effects(jobs=tuple(new_job(task="t", fair_key="a") for _ in range(5))))
    await take(store, Order.PRIORITY)
    assert orders(asking) == set()
    assert asking.keys(f"{P}oi:*") == []
    await take(store, Order.AGE, 1)
    assert orders(asking) == {AGE}
    assert asking.zcard(f"{P}oi:{AGE}") == asking.zcard(f"{P}r:{LANE}") == 1


async def test_an_order_is_made_in_parts_between_which_others_are_served(
    store: RedisStore, asking: redis.Redis
) -> None:
    jobs = [new_job(task="t", fair_key="big") for _ in range(3_500)]
    await store.commit(Effects(jobs=(*jobs, last := new_job(task="t", fair_key="small"))))
    before = asking.info("commandstats")["cmdstat_fcall"]["calls"]
    assert {each.id for each in await take(store, Order.BALANCED, 2)} == {jobs[0].id, last.id}
    assert asking.info("commandstats")["cmdstat_fcall"]["calls"] - before == 4
    assert not asking.hexists(f"{P}oh:{BALANCED}", "c")


async def test_an_order_that_was_not_asked_for_in_an_hour_is_dropped(
    store: RedisStore, asking: redis.Redis, clock: ManualClock
) -> None:
    await store.commit(Effects(jobs=tuple(new_job(task="t") for _ in range(10))))
    await take(store, Order.AGE, 1)
    clock.advance(3600)
    await store.register(worker_info("w1"), lease_seconds=3600)
    await take(store, Order.PRIORITY, 1)
    assert orders(asking) == {AGE}
    clock.advance(1)
    await take(store, Order.PRIORITY, 1)
    assert orders(asking) == set()
    assert asking.keys(f"{P}o*") == []


async def test_a_lane_that_is_empty_keeps_no_order(store: RedisStore, asking: redis.Redis) -> None:
    await store.commit(Effects(jobs=(new_job(task="t"),)))
    await take(store, Order.BALANCED)
    await take(store, Order.BALANCED)
    assert asking.keys(f"{P}o*") == []


async def test_an_order_that_somebody_damaged_is_made_anew(
    store: RedisStore, asking: redis.Redis
) -> None:
    jobs = [new_job(task="t") for _ in range(4)]
    await store.commit(Effects(jobs=tuple(jobs)))
    await take(store, Order.AGE, 1)
    asking.delete(f"{P}oi:{AGE}")
    assert [each.id for each in await take(store, Order.AGE)] == [each.id for each in jobs[1:]]


async def test_a_lease_from_many_lanes_reads_few_rows_of_each(
    store: RedisStore, asking: redis.Redis
) -> None:
    """The server does nothing else while a lease goes on."""
    tasks = {f"t{number}": 100 for number in range(10)}
    for task in tasks:
        await store.commit(
            Effects(jobs=tuple(new_job(task=task, fair_key=f"k{n}") for n in range(50)))
        )
    request = LeaseRequest(worker="w1", limit=100, tasks=tasks, order=Order.BALANCED)
    await store.lease(request)  # which makes the orders
    asking.config_resetstat()
    assert len((await store.lease(request)).jobs) == 100
    calls = {name: told["calls"] for name, told in asking.info("commandstats").items()}
    assert calls["cmdstat_hget"] < 500  # 100 of them for the inputs
    assert calls["cmdstat_zrange"] < 500


async def test_an_order_gives_no_job_that_is_not_ready(
    store: RedisStore, asking: redis.Redis, clock: ManualClock
) -> None:
    """As functions of an older release leave it, which know of no order."""
    jobs = [new_job(task="t") for _ in range(3)]
    await store.commit(Effects(jobs=tuple(jobs)))
    (held,) = await take(store, Order.AGE, 1)
    assert held.id == jobs[0].id
    before = ranked(asking, f"oi:{AGE}")
    member = before[0][:18] + held.id.encode()
    retry = Retry(delay=3600.0, failure=failure())
    await store.settle([Settlement(job=held, outcome=retry)])
    asking.zrem(f"{P}oi:{AGE}", before[1])
    asking.zadd(f"{P}oi:{AGE}", {member: 0})
    assert [each.id for each in await take(store, Order.AGE)] == [jobs[1].id]
    assert [each.id for each in await take(store, Order.AGE)] == [jobs[2].id], "it was made anew"


@pytest.mark.parametrize("foreign", ["mine", "9" * 400 + ":", ":"])
async def test_a_foreign_member_of_an_order_stops_nobody(
    store: RedisStore, asking: redis.Redis, foreign: str
) -> None:
    jobs = [new_job(task="t", fair_key="a") for _ in range(4)]
    await store.commit(Effects(jobs=tuple(jobs)))
    await take(store, Order.BALANCED, 1)
    asking.zrem(f"{P}oi:{BALANCED}", ranked(asking, f"oi:{BALANCED}")[0])
    asking.zadd(f"{P}oi:{BALANCED}", {foreign: 0})
    taken = await take(store, Order.BALANCED) + await take(store, Order.BALANCED)
    assert {each.id for each in taken} == {each.id for each in jobs[1:]}


async def test_a_place_of_nobody_is_not_counted_again_and_again(
    store: RedisStore, asking: redis.Redis
) -> None:
    jobs = [new_job(task="t") for _ in range(3)]
    await store.commit(Effects(jobs=tuple(jobs)))
    place = ranked(asking, f"r:{LANE}")[0]
    asking.zadd(f"{P}r:{LANE}", {b"0" * 28 + place[28:]: 0})
    assert len(await take(store, Order.AGE, 1)) == 1
    assert members(asking) == wanted(asking) == {AGE: 2}


async def test_running_jobs_that_were_not_counted_leave_no_debt(
    store: RedisStore, asking: redis.Redis
) -> None:
    jobs = [new_job(task="t", fair_key="a") for _ in range(3)]
    await store.commit(Effects(jobs=tuple(jobs)))
    held = await take(store, Order.PRIORITY)
    asking.delete(f"{P}fr")
    await store.settle([Settlement(job=each, outcome=Succeeded()) for each in held])
    assert not asking.exists(f"{P}fr")


async def test_jobs_that_are_counted_and_do_not_run_are_forgotten(
    store: RedisStore, asking: redis.Redis
) -> None:
    asking.hset(f"{P}fr", "a", "7")
    jobs = [new_job(task="t", fair_key=key) for key in "ab"]
    await store.commit(Effects(jobs=tuple(jobs)))
    assert [each.id for each in await take(store, Order.BALANCED, 1)] == [jobs[0].id]
    assert asking.hgetall(f"{P}fr") == {b"a": b"1"}


async def test_a_foreign_key_in_the_place_of_an_order_is_left(
    store: RedisStore, asking: redis.Redis
) -> None:
    asking.set(f"{P}ol", "mine")
    with pytest.raises(StoreRejected, match="WRONGTYPE"):
        await store.commit(Effects(jobs=(new_job(task="t"),)))
    assert asking.get(f"{P}ol") == b"mine"
    assert asking.keys(f"{P}j:*") == []


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_becomes_of_jobs_an_order_has_those_that_are_ready(
    store: RedisStore, asking: redis.Redis, clock: ManualClock, seed: int
) -> None:
    doings = Doings(store, clock, random.Random(seed))
    for order in (Order.AGE, Order.BALANCED):
        await doings.enqueue()
        await take(store, order, 1)
    for _ in range(120):
        await doings.go()
        assert members(asking) == wanted(asking)
        running = (await store.find(JobFilter(states=(JobState.RUNNING,)), limit=1000)).items
        counted = Counter(each.fair_key.encode() for each in running if each.fair_key)
        assert asking.hgetall(f"{P}fr") == {key: b"%d" % by for key, by in counted.items()}


def ranked(asking: redis.Redis, key: str) -> list[bytes]:
    """The members of a sorted set, as they were written."""
    return [each for each in asking.zrange(P + key, 0, -1) if isinstance(each, bytes)]


def members(asking: redis.Redis) -> dict[str, int]:
    """The number of jobs in each order, but for orders that are not."""
    return {name: asking.zcard(f"{P}oi:{name}") for name in orders(asking)}


def wanted(asking: redis.Redis) -> dict[str, int]:
    """The number that each should have."""
    return dict.fromkeys(orders(asking), asking.zcard(f"{P}r:{LANE}"))


class Doings:
    """Random changes of jobs of one lane."""

    def __init__(self, store: RedisStore, clock: ManualClock, chance: random.Random) -> None:
        self.store, self.clock, self.chance = store, clock, chance
        self.ids: list[str] = []
        self.held: list[LeasedJob] = []

    async def go(self) -> None:
        steps = (self.enqueue, self.take, self.end, self.replace, self.change, self.lose)
        await self.chance.choice(steps)()

    def some(self) -> list[str]:
        return [each for each in self.ids if self.chance.random() < 0.3]

    async def enqueue(self) -> None:
        fields = {
            "priority": self.chance.randrange(-2, 3),
            "fair_key": self.chance.choice([None, "a", "b"]),
            "delay": self.chance.choice([0.0, 0.0, 5.0]),
        }
        jobs = [new_job(task="t", **fields) for _ in range(self.chance.randrange(1, 4))]
        await self.store.commit(Effects(jobs=tuple(jobs)))
        self.ids += [each.id for each in jobs]

    async def replace(self) -> None:
        """A job whose unique key is taken gives its terms to the one that has it."""
        unique = UniqueClaim(key="k", policy=UniquePolicy.REPLACE)
        key = self.chance.choice([None, "a", "b"])
        job = new_job(task="t", unique=unique, fair_key=key, priority=self.chance.randrange(3))
        with suppress(UniqueConflict):  # it runs, so it cannot be replaced
            (answer,) = await self.store.commit(Effects(jobs=(job,)))
            self.ids.append(answer.job_id)

    async def take(self) -> None:
        limit = self.chance.randrange(1, 4)
        self.held += await take(self.store, self.chance.choice(list(Order)), limit)

    async def end(self) -> None:
        outcomes: list[Outcome] = [
            Succeeded(),
            Released(),
            Snoozed(delay=5.0),
            Retry(delay=0.0, failure=failure()),
        ]
        held, self.held = self.held, []
        ends = [Settlement(job=each, outcome=self.chance.choice(outcomes)) for each in held]
        await self.store.settle(ends)

    async def change(self) -> None:
        self.clock.advance(self.chance.choice([1, 6]))
        await self.store.register(worker_info("w1"), lease_seconds=30)
        await self.store.amend(self.some(), Amendment(priority=self.chance.randrange(3)))
        await self.store.redrive([JobRedrive(id=each, delay=3.0) for each in self.some()])
        await self.store.cancel(self.some())

    async def lose(self) -> None:
        self.clock.advance(31)
        await self.store.rescue(limit=100, max_deliveries=1000)
        await self.store.register(worker_info("w1"), lease_seconds=30)
        self.held = []
