"""The tests of what an operator looks at and asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from offpath.model.action import ActionFilter, ActionProgress, ActionState, NewAction
from offpath.model.job import JobFilter, JobState
from offpath.model.lease import WorkerAnswer, WorkerAsk, WorkerRequest
from offpath.model.settlement import Succeeded
from offpath.store.capabilities import Profile
from offpath.testing.conformance.bench import LEASE, TASK, Bench, contract, worker_info

if TYPE_CHECKING:
    from offpath.store.protocol import Store

VERB: Final = "job.redrive"


class OperatingTests:
    """Lists for people, actions that are kept, and requests to workers."""

    @contract(Profile.OPERATING)
    async def test_pages_for_people_follow_each_other_to_the_end(
        self, bench: Bench, store: Store
    ) -> None:
        made = [await bench.add(store) for _ in range(5)]
        found, after = list[str](), None
        while True:
            page = await store.browse(JobFilter(), limit=2, after=after)
            found += [each.id for each in page.items]
            after = page.next
            if after is None:
                break
        assert found == made[::-1]

    @contract(Profile.OPERATING)
    async def test_a_page_tells_how_far_it_looked_where_little_matches(
        self, bench: Bench, store: Store
    ) -> None:
        old = await bench.add(store, queue="seldom")
        for _ in range(4):
            await bench.add(store)
        seldom = JobFilter(queues=("seldom",))
        page = await store.browse(seldom, most=3)
        assert (page.items, page.next is None) == ((), False)
        behind = await store.browse(seldom, most=3, after=page.next)
        assert [each.id for each in behind.items] == [old]

    @contract(Profile.OPERATING)
    async def test_dead_jobs_are_counted_by_what_they_died_of(
        self, bench: Bench, store: Store
    ) -> None:
        for _ in range(3):
            await bench.end(store, await bench.start(store), bench.dead())
        assert (await store.dead_tally()).jobs == 3
        (fault,) = (await store.faults()).items
        assert (fault.task, fault.jobs) == (TASK, 3)

    @contract(Profile.OPERATING)
    async def test_what_is_handed_out_next_is_told_in_its_order(
        self, bench: Bench, store: Store
    ) -> None:
        late = await bench.add(store)
        best = await bench.add(store, priority=3)
        await bench.add(store, delay=60.0)
        assert [each.id for each in await store.next_due("default")] == [best, late]

    @contract(Profile.OPERATING)
    async def test_an_action_is_kept_and_its_outcome_is_its_holders(
        self, bench: Bench, store: Store
    ) -> None:
        asked = _asked(bench)
        made = await store.put_action(asked)
        assert await store.put_action(replace(asked, holder="h2")) == made
        other = ActionProgress(id=asked.id, holder="h2", lease=LEASE)
        assert await store.step_action(other) is None
        done = replace(other, holder="h1", state=ActionState.DONE, changed=2)
        ended = await store.step_action(done)
        assert ended is not None
        assert (ended.state, ended.changed) == (ActionState.DONE, 2)
        assert await store.actions(ActionFilter()) == [ended]

    @contract(Profile.OPERATING)
    async def test_an_action_whose_holder_died_is_taken_up_by_another(
        self, bench: Bench, store: Store
    ) -> None:
        await store.put_action(_asked(bench))
        assert await store.take_action("h2", verbs=[VERB], lease=LEASE) is None
        bench.clock.advance(LEASE + 1)
        assert await store.has_late_action(verbs=[VERB])
        taken = await store.take_action("h2", verbs=[VERB], lease=LEASE)
        assert taken is not None
        assert taken.holder == "h2"
        late = ActionProgress(id=taken.id, holder="h1", lease=LEASE, state=ActionState.DONE)
        assert await store.step_action(late) is None

    @contract(Profile.OPERATING)
    async def test_a_worker_hears_what_is_asked_of_it_until_it_has_answered(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.join(store)
        ask = WorkerAsk(id=bench.new_id(), request=WorkerRequest.DUMP)
        assert [await store.ask_worker("w1", ask) for _ in range(2)] == [True, True]
        beat = await store.extend(worker_info("w1"), lease_seconds=LEASE, held=[])
        assert beat.asked == (ask,)
        answer = WorkerAnswer(id=ask.id, request=ask.request, text="here")
        assert [await store.answer_worker("w1", answer) for _ in range(2)] == [True, False]
        desk = await store.worker_desk("w1")
        assert desk is not None
        assert desk.answer is not None
        assert (desk.asked, desk.answer.text) == ((), "here")
        assert (await store.signals("w1", [])).asked == ()

    @contract(Profile.OPERATING)
    async def test_nothing_is_asked_of_a_worker_that_is_not_there(
        self, bench: Bench, store: Store
    ) -> None:
        ask = WorkerAsk(id=bench.new_id(), request=WorkerRequest.STOP)
        assert not await store.ask_worker("nobody", ask)
        assert await store.worker_desk("nobody") is None

    @contract(Profile.OPERATING)
    async def test_running_and_ended_jobs_are_told_apart(self, bench: Bench, store: Store) -> None:
        ended = await bench.start(store)
        await bench.end(store, ended, Succeeded())
        runs = await bench.start(store)
        page = await store.browse(JobFilter(states=(JobState.RUNNING,)))
        assert [each.id for each in page.items] == [runs.id]


def _asked(bench: Bench) -> NewAction:
    return NewAction(
        id=bench.new_id(), actor="ann", via="dashboard", verb=VERB, target="{}", options="{}",
        note="", holder="h1", lease=LEASE,
    )  # fmt: skip
