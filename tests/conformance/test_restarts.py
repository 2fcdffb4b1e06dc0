"""W17: what workflows count on is in the store: another process goes on where one ended."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import GateState
from offpath.model.settlement import Succeeded
from offpath.runtime.clock import ManualClock
from tests.conformance.backends import Backend
from tests.conformance.builders import join, new_job, record, succeed, take
from tests.conformance.workflow_builders import (
    LATER,
    adding,
    fates,
    gate_of,
    gate_on,
    gives,
    group_of,
    hold_one,
    limit_of,
    limited,
    settle_with,
    signal,
    sleeper,
)


async def test_groups_gates_values_waits_and_limits_outlive_their_process(
    backend: Backend, clock: ManualClock
) -> None:
    first = backend.store(clock)
    if not first.capabilities.durable:
        pytest.skip("lost with the process, as declared")
    await first.open()
    await join(first)
    asleep = await sleeper(first)
    root = new_job()
    await first.commit(Effects(jobs=(root,)))
    (held,) = await take(first)
    children = [new_job(parent=root.id) for _ in range(4)]
    await settle_with(first, held, Effects(jobs=tuple(children)), Succeeded())
    gate = gate_on(*(child.id for child in children))
    last = await hold_one(first, gate)
    await first.commit(Effects(jobs=(limited("api"), limited("api"))))
    await first.admit(limit=10)
    (one,) = await take(first, limit=1, tasks={"mail.send": 1})
    held_child = one if one.id in {child.id for child in children} else None
    assert held_child is not None
    await settle_with(first, held_child, gives("1", fold=adding), Succeeded(contributes=False))
    await first.close()

    second = backend.store(clock)
    await second.open()
    try:
        await join(second)
        group = await group_of(second, root.id)
        assert (group.open, group.result) == (3, "1")
        known = await limit_of(second)
        assert (known.admitted, known.held) == (1, 1)
        done = []
        for job in await take(second):
            if job.group_id == root.id:
                effects = gives("1", fold=adding)
                answer = await settle_with(second, job, effects, Succeeded(contributes=False))
                done.append(answer.group_done)
            else:
                await succeed(second, job)
        assert done == [False, False, True]
        assert (await group_of(second, root.id)).result == "4"
        assert (await gate_of(second, gate)).state is GateState.FIRED
        assert await fates(second, last) == [("queued", None)]
        assert [job.id for job in await take(second, tasks={LATER: 1})] == [last]
        await second.admit(limit=10)
        assert (await limit_of(second)).held == 0
        await second.send_signal(signal())
        assert (await record(second, asleep)).reason is None
    finally:
        await second.close()
