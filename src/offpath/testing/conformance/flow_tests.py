"""The tests of limits, orders, workflows and the event log."""

from __future__ import annotations

from offpath.errors import LeaseLost
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.job import JobState
from offpath.model.lease import Order
from offpath.model.limit import LimitSpec
from offpath.model.new import NewLogEvent
from offpath.model.route import Attempt, AttemptStatus, Decisions, RouterSpec, slot_of
from offpath.model.settlement import Succeeded, Waiting
from offpath.model.wait import NewSignal
from offpath.store.capabilities import Profile
from offpath.store.protocol import Store
from offpath.testing.conformance.bench import Bench, contract

_ROUTER = "kit.router"


class FlowTests:
    """Tests of limits, orders and workflows."""

    @contract(Profile.LIMITS)
    async def test_a_limit_lets_so_many_run_and_room_comes_back(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.join(store)
        jobs = [await bench.add(store, limit=LimitSpec(key="k", max_running=1)) for _ in range(2)]
        await store.admit(limit=10)
        (first,) = (await bench.ask(store)).jobs
        assert (first.id, (await bench.record(store, jobs[1])).state) == (jobs[0], JobState.BLOCKED)
        await bench.end(store, first, Succeeded())
        await store.admit(limit=10)
        assert [each.id for each in (await bench.ask(store)).jobs] == jobs[1:]

    @contract(Profile.LIMITS)
    async def test_a_closed_limit_starts_nothing_until_it_is_opened(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.join(store)
        await bench.add(store, limit=LimitSpec(key="k", max_running=5))
        await store.close_limit("k", seconds=60.0)
        await store.admit(limit=10)
        assert (await bench.ask(store)).jobs == ()
        assert await store.open_limit("k")
        await store.admit(limit=10)
        assert len((await bench.ask(store)).jobs) == 1

    @contract(Profile.DISPATCH)
    async def test_orders_are_by_age_or_in_the_turn_of_fair_keys(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.join(store)
        flood = [await bench.add(store, fair_key="a") for _ in range(3)]
        bench.clock.advance(1)
        other = await bench.add(store, fair_key="b", priority=-5)
        assert await _ordered(bench, store, Order.BALANCED) == {flood[0], other}
        bench.clock.advance(1)
        await bench.add(store, fair_key="a", priority=9)
        assert await _ordered(bench, store, Order.AGE) == set(flood[1:])

    @contract(Profile.WORKFLOWS)
    async def test_a_gate_opens_when_what_it_watches_has_succeeded(
        self, bench: Bench, store: Store
    ) -> None:
        parts = [await bench.start(store), await bench.start(store)]
        gate = NewGate(id=bench.new_id(), on=tuple(each.id for each in parts), need=2)
        behind = bench.job(gate=gate.id)
        await store.commit(Effects(jobs=(behind,), gates=(gate,)))
        await bench.end(store, parts[0], Succeeded())
        assert (await bench.ask(store)).jobs == ()
        await bench.end(store, parts[1], Succeeded())
        assert (await bench.take(store)).id == behind.id

    @contract(Profile.WORKFLOWS)
    async def test_a_gate_that_cannot_open_ends_what_waits_behind_it(
        self, bench: Bench, store: Store
    ) -> None:
        part = await bench.start(store)
        gate = NewGate(id=bench.new_id(), on=(part.id,), need=1)
        behind = bench.job(gate=gate.id)
        await store.commit(Effects(jobs=(behind,), gates=(gate,)))
        ended = await bench.end(store, part, bench.dead())
        assert [each.id for each in ended.along] == [behind.id]
        assert (await bench.record(store, behind.id)).reason == "unsatisfiable"

    @contract(Profile.WORKFLOWS)
    async def test_a_step_is_recorded_once_and_by_the_holder(
        self, bench: Bench, store: Store
    ) -> None:
        job = await bench.start(store)
        assert [await store.put_step(job, "s", text) for text in ("1", "2")] == ["1", "1"]
        assert await store.steps(job.id) == {"s": "1"}
        await bench.end(store, job, Succeeded())
        try:
            await store.put_step(job, "t", "3")
        except LeaseLost:
            return
        raise AssertionError("whoever holds nothing wrote a step")

    @contract(Profile.WORKFLOWS)
    async def test_a_signal_wakes_who_waits_for_it(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        await bench.end(store, job, Waiting(target=job.id, event="go"))
        assert (await bench.ask(store)).jobs == ()
        signal = NewSignal(id=bench.new_id(), target=job.id, event="go", payload="7", keep=60.0)
        assert [await store.send_signal(signal) for _ in range(2)] == [True, False]
        again = await bench.take(store)
        assert await store.take_signal(again, target=job.id, event="go", step="w") == "7"

    @contract(Profile.LOG)
    async def test_a_router_passes_each_event_once(self, bench: Bench, store: Store) -> None:
        await store.declare_router(RouterSpec(name=_ROUTER, domain="d", start="beginning"))
        ids = [bench.new_id() for _ in range(3)]
        events = [
            NewLogEvent(id=each, domain="d", type="made", stream="s", payload="{}",
                        slot=slot_of(each))
            for each in ids
        ]  # fmt: skip
        await store.commit(Effects(log=tuple(events)))
        cursor = await store.lease_cursor(_ROUTER, 0, "h1", lease_seconds=30.0)
        assert cursor is not None
        assert await store.lease_cursor(_ROUTER, 0, "h2", lease_seconds=30.0) is None
        page = await store.read_log(_ROUTER, 0, after=cursor.position, limit=10)
        assert [each.id for each in page.events] == ids
        sent = [
            Attempt(router=_ROUTER, route="r", event=each.id, position=each.position,
                    status=AttemptStatus.SENT)
            for each in page.events
        ]  # fmt: skip
        last = page.events[-1].position
        decided = Decisions(position=last, attempts=tuple(sent), letters=(), passed=len(sent))
        assert await store.advance(cursor, decided)
        assert (await store.read_log(_ROUTER, 0, after=last, limit=10)).events == ()
        await store.release_cursor(cursor)
        assert not await store.advance(cursor, decided)


async def _ordered(bench: Bench, store: Store, order: Order) -> set[str]:
    return {each.id for each in (await bench.ask(store, limit=2, order=order)).jobs}
