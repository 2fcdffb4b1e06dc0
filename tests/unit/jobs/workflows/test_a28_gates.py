"""Edge cases A.28 131-142, by number, and what A.29 says of gates: conditions, ends, timeouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offpath
from offpath import Context, GroupFailed, InvalidArgument, JobState, Plan
from offpath.errors import GateError, PlanError
from offpath.model.gate import Counting, When
from offpath.model.job import DeadReason
from offpath.model.unsent import unsent
from tests.unit.edge_cases.bench import Bench

GATE: Any = offpath.gate
AT_LEAST: Any = offpath.at_least
"""The values as callers without a type checker see them."""


@pytest.fixture
def ran(bench: Bench) -> list[str]:
    """The names of the leaves that ran; a leaf whose name starts with "bad" dies."""
    names: list[str] = []

    @bench.app.task(retry=1)
    async def leaf(name: str) -> str:
        names.append(name)
        if name.startswith("bad"):
            raise offpath.Abort(name)
        return name

    return names


def leaf(bench: Bench, name: str) -> offpath.Job[str, str]:
    return bench.app.tasks["leaf"].job(name)


@pytest.mark.parametrize(
    ("when", "names", "runs"),
    [
        (offpath.all_settled, ["ok", "bad"], True),
        (offpath.all_succeeded, ["ok", "bad"], False),
        (offpath.at_least(2, of="settled"), ["ok", "bad"], True),
        (offpath.at_least(2), ["ok", "bad"], False),
        (offpath.at_least(0), ["bad"], True),
        (offpath.any_succeeded, ["bad", "ok"], True),
        (offpath.any_succeeded, ["bad1", "bad2"], False),
    ],
)
async def test_a28_131_to_134_conditions(
    bench: Bench, ran: list[str], when: When, names: list[str], runs: bool
) -> None:
    watched = [leaf(bench, name) for name in names]
    last = leaf(bench, "last")
    await bench.app.enqueue([*watched, offpath.gate(on=watched, queue=[last], when=when)])
    await bench.run()
    assert ("last" in ran) is runs
    record = await bench.record(last.id)
    assert record.state is (JobState.SUCCEEDED if runs else JobState.DEAD)
    assert runs or record.reason == DeadReason.UNSATISFIABLE


async def test_a28_131_a_job_that_has_not_ended_is_waited_for(bench: Bench, ran: list[str]) -> None:
    slow, quick, last = leaf(bench, "slow"), leaf(bench, "quick"), leaf(bench, "last")
    await bench.app.enqueue(bench.app.tasks["leaf"].options(id=slow.id, delay=60).job("slow"))
    await bench.app.enqueue([quick, offpath.gate(on=[slow, quick.id], queue=[last])])
    await bench.run()
    assert ran == ["quick"]
    assert (await bench.record(last.id)).state is JobState.BLOCKED
    await bench.run_after(60)
    assert ran == ["quick", "slow", "last"]


async def test_a28_135_the_finaliser_runs_once_before_the_gate_resolves(
    bench: Bench, ran: list[str]
) -> None:
    steps = [leaf(bench, "a"), leaf(bench, "b")]
    handle = await bench.app.enqueue(offpath.gate(on=steps, queue=[leaf(bench, "last")], timeout=9))
    await bench.app.enqueue(steps)
    await bench.run()
    assert await handle == "last"
    assert sorted(ran) == ["a", "b", "last"]


async def test_a28_136_139_an_unknown_job_times_out_and_the_group_fails(
    bench: Bench, ran: list[str]
) -> None:
    last = leaf(bench, "last")
    gate = offpath.gate(on=[leaf(bench, "never").id], queue=[last], timeout=30)
    handle = await bench.app.enqueue(gate)
    bench.clock.advance(31)
    await bench.app.store().expire_blocked(limit=10)
    assert (await bench.record(last.id)).reason == DeadReason.GATE_TIMEOUT
    with pytest.raises(GroupFailed) as failed:
        await handle
    assert [member.id for member in failed.value.members] == [last.id]
    assert ran == []


async def test_without_a_timeout_an_unknown_job_is_refused(bench: Bench, ran: list[str]) -> None:
    gate = offpath.gate(on=[leaf(bench, "never")], queue=[leaf(bench, "last")])
    with pytest.raises(GateError):
        await bench.app.enqueue(gate)
    assert await bench.app.jobs.count() == 0


async def test_a28_142_a_gate_on_jobs_that_have_ended_fires_as_it_is_made(
    bench: Bench, ran: list[str]
) -> None:
    steps = [leaf(bench, f"step {number}") for number in range(6)]
    await bench.app.enqueue(steps)
    await bench.run()
    handle = await bench.app.enqueue(offpath.gate(on=steps, queue=[leaf(bench, "last")]))
    await bench.run()
    assert await handle == "last"
    assert ran.count("last") == 1


async def test_s4_next_over_a_dead_job_ends_at_once_and_the_group_is_done(
    bench: Bench, ran: list[str]
) -> None:
    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        return (
            ctx.queue(leaf(bench, "bad"), leaf(bench, "good"))
            .next(leaf(bench, "second"))
            .next(leaf(bench, "third"))
        )

    handle = await root.enqueue()
    await bench.run()
    with pytest.raises(GroupFailed) as failed:
        await handle.group(timeout=0)
    assert failed.value.value == "good"
    reasons = sorted(str(one.reason) for one in failed.value.members)
    assert reasons == ["aborted", "unsatisfiable", "unsatisfiable"]
    assert await handle.group(allow_failed=True) == "good"


async def test_s4_next_waits_no_longer_than_its_timeout(bench: Bench, ran: list[str]) -> None:
    late = bench.app.tasks["leaf"].options(delay=3600).job("late")

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        return ctx.queue(late).next(leaf(bench, "second"), timeout=60).next(leaf(bench, "third"))

    handle = await root.enqueue()
    await bench.run()
    bench.clock.advance(59)
    assert await bench.app.store().expire_blocked(limit=10) == []
    bench.clock.advance(1)
    await bench.app.store().expire_blocked(limit=10)
    page = await bench.app.groups.members(handle.id, states=[JobState.DEAD])
    assert sorted(str(one.reason) for one in page.items) == ["gate_timeout", "unsatisfiable"]
    await bench.run_after(3600)
    assert ran == ["late"]


async def test_s5_a_gate_that_waits_costs_nothing(bench: Bench, ran: list[str]) -> None:
    watched = bench.app.tasks["leaf"].options(delay=86_400).job("watched")
    await bench.app.enqueue([watched, offpath.gate(on=[watched], queue=[leaf(bench, "last")])])
    for _ in range(20):
        counts = await bench.run_after(600)
        assert counts.total == 0
    assert await bench.app.jobs.count() == 2


async def test_s20_jobs_behind_a_gate_keep_their_options(bench: Bench, ran: list[str]) -> None:
    task = bench.app.tasks["leaf"]
    held = task.options(priority=7, queue="vip", tags=["t"], retry=4, id=offpath_id()).job("last")
    step = leaf(bench, "a")
    await bench.app.enqueue([step, offpath.gate(on=[step], queue=[held])])
    record = await bench.record(held.id)
    assert (record.priority, record.queue, record.tags) == (7, "vip", ("t",))
    assert (record.options, record.dependents) == (unsent(held).new.options, (step.id,))


async def test_the_options_of_next_land_on_the_next_jobs(bench: Bench, ran: list[str]) -> None:
    seen: list[str] = []

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        first = bench.app.tasks["leaf"].options(tags=["own"], priority=1).job("a")
        second = leaf(bench, "b")
        seen.extend((first.id, second.id))
        return ctx.queue(first, priority=3).next(second, priority=7, queue="vip", timeout=60)

    await root.enqueue()
    await bench.app.worker().run_until_idle(limit=1)
    first, second = [await bench.record(one) for one in seen]
    assert (first.priority, first.tags, first.queue) == (3, ("own",), "default")
    assert (second.priority, second.queue, second.state) == (7, "vip", JobState.BLOCKED)


WRONG: list[Callable[[Any], Any]] = [
    lambda job: offpath.gate(on=job, queue=[job]),
    lambda job: offpath.gate(on=["x"], queue=[job]),
    lambda job: offpath.gate(on=[job], queue=[job]),
    lambda job: offpath.gate(on=[job], queue=[]),
    lambda job: GATE(on=[], queue=["x"]),
    lambda job: offpath.gate(on=[], queue=[job], timeout=0),
    lambda job: GATE(on=[], queue=[job], timeout="soon"),
    lambda job: GATE(on=[], queue=[job], when="all"),
    lambda job: offpath.gate(on=[], queue=[job], when=offpath.at_least(2)),
    lambda job: offpath.at_least(-1),
    lambda job: AT_LEAST("two"),
    lambda job: AT_LEAST(1, of="done"),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_no_gate_can_be(bench: Bench, ran: list[str], wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(GateError):
        wrong(leaf(bench, "a"))


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", ["with a context", "without", "in a thread", "a batch"])
async def test_a_gate_that_cannot_be_costs_its_handler_no_retry(
    bench: Bench, ran: list[str], kind: str, wrong: Callable[[Any], Any]
) -> None:
    runs: list[int] = []

    def body() -> None:
        runs.append(1)
        wrong(leaf(bench, "a"))

    handle = await handler(bench, kind, body).enqueue(1)
    await bench.run()
    record = await bench.record(handle.id)
    assert (record.state, record.reason, len(runs)) == (JobState.DEAD, "invalid_plan", 1)
    assert record.failure is not None
    assert record.failure.type == "GateError"


def handler(bench: Bench, kind: str, body: Callable[[], None]) -> Any:
    async def plain(n: int) -> None:
        body()

    async def contextual(ctx: Context, n: int) -> None:
        body()

    def in_thread(n: int) -> None:
        body()

    async def batch(numbers: list[int]) -> list[None]:
        body()
        return [None for _ in numbers]

    kinds: dict[str, Any] = {
        "with a context": contextual,
        "without": plain,
        "in a thread": in_thread,
    }
    if kind == "a batch":
        return bench.app.batch_task(size=5, retry=5)(batch)
    return bench.app.task(retry=5)(kinds[kind])


async def test_a_gate_on_jobs_that_nobody_knows_costs_its_handler_no_retry(
    bench: Bench, ran: list[str]
) -> None:
    runs: list[int] = []

    @bench.app.task(retry=5)
    async def root() -> None:
        runs.append(1)
        await bench.app.enqueue(offpath.gate(on=[offpath_id()], queue=[leaf(bench, "a")]))

    handle = await root.enqueue()
    await bench.run()
    record = await bench.record(handle.id)
    assert (record.state, record.reason, len(runs)) == (JobState.DEAD, "invalid_plan", 1)


async def test_a_handler_may_go_on_after_a_gate_that_cannot_be(
    bench: Bench, ran: list[str]
) -> None:
    @bench.app.task
    async def root() -> str:
        try:
            offpath.gate(on=[], queue=[])
        except InvalidArgument as error:
            return str(error)
        return ""

    handle = await root.enqueue()
    await bench.run()
    assert await handle.result() == (
        "a gate's `queue` takes at least one job: queue=[task.job(...)]"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ctx, a, b: ctx.queue(a).next(b, when=offpath.at_least(2)),
        lambda ctx, a, b: ctx.queue(a).next(a),
        lambda ctx, a, b: ctx.queue(a).next(offpath.gate(on=[a], queue=[b])),
        lambda ctx, a, b: ctx.queue(a).next(ctx.result(1)),
        lambda ctx, a, b: ctx.queue([a, b]),
        lambda ctx, a, b: ctx.queue("a"),
        lambda ctx, a, b: ctx.queue(a, b, id=offpath_id()),
        lambda ctx, a, b: ctx.queue(a, b, prio=3),
        lambda ctx, a, b: ctx.queue(a).next(b, delay=-1),
        lambda ctx, a, b: ctx.result("a", append=5),
        lambda ctx, a, b: ctx.queue(a, offpath.gate(on=[offpath_id()], queue=[b])),
    ],
)
async def test_a_plan_that_cannot_be_carried_out_is_dead_at_once(
    bench: Bench, ran: list[str], wrong: object
) -> None:
    assert callable(wrong)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        made: Plan[None, str] = wrong(ctx, leaf(bench, "a"), leaf(bench, "b"))
        return made

    handle = await root.enqueue()
    await bench.run()
    record = await handle.status()
    assert (record.state, record.reason) == (JobState.DEAD, "invalid_plan")
    assert record.deliveries == 1
    assert record.failure is not None
    assert record.failure.type in {PlanError.__name__, GateError.__name__}
    assert ran == []


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (lambda task, handle: [task.job("a")], "as `*jobs`"),
        (lambda task, handle: (task.job(each) for each in "ab"), "as `*jobs`"),
        (lambda task, handle: task, "a task makes jobs, task.job(...)"),
        (lambda task, handle: handle, "sent already"),
        (lambda task, handle: 5, "not int"),
    ],
)
async def test_who_gives_a_plan_something_else_is_told_what_to_give(
    bench: Bench, given: object, advice: str
) -> None:
    assert callable(given)

    @bench.app.task(name="leaf")
    async def make(name: str) -> None: ...

    sent = await make.enqueue("sent")

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        return ctx.queue(given(make, sent))

    handle = await root.enqueue()
    await bench.run()
    failure = (await handle.status()).failure
    assert failure is not None
    assert advice in failure.message


def test_conditions_are_values() -> None:
    assert offpath.at_least(2, of="settled") == When(need=2, of=Counting.SETTLED)


def offpath_id() -> str:
    return offpath.App().new_id()
