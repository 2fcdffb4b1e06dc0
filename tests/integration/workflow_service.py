"""Workers of workflows: ``workflow_service:app``.

Each handler writes to the journal when it starts, and every end of a group is written when it is
told. Handlers that wait do so for a file, so that the test decides when they go on.
"""

# ruff: noqa: ASYNC110 - a file is the only signal that reaches every process
from __future__ import annotations

import asyncio
import operator
import os
import signal
from pathlib import Path
from typing import Any

import offpath
from offpath import Context, Job, Plan
from offpath.model.event import EventKind
from tests.integration.journal import note

DEADLY = "deadly"
"""The queue of jobs that kill their workers."""


def _record(event: offpath.JobEvent) -> None:
    """Told after the commit that recorded it."""
    group = event.kind is EventKind.GROUP_DONE
    note(f"recorded-{event.kind}", event.group_id if group else event.id, event.attempt)


app = offpath.App(on_event=_record)


def client_of(url: str) -> offpath.App:
    """A client of a store, with the tasks of this service, that runs nothing."""
    made = offpath.App(url, auto_start=False)
    for task in app.tasks.values():
        made.tasks.add(task)
    return made


async def _until(gate: str) -> None:
    while not Path(gate).exists():
        await asyncio.sleep(0.02)


# -- values of groups ------------------------------------------------------------------------------


@app.task
async def one(ctx: Context, _number: int) -> Plan[int, int]:
    """Add one to the group's value."""
    note("start", ctx.id, ctx.attempt)
    return ctx.result(1, append=operator.add)


@app.task
async def tally(ctx: Context, children: int) -> Plan[None, int]:
    """Children that each add one."""
    return ctx.queue(*(one.job(number) for number in range(children)))


@app.task
async def says(ctx: Context, number: int, gate: str, *, final: bool) -> Plan[int, int]:
    """Give a number to the group once the gate is there: for good, or for now."""
    note("start", ctx.id, ctx.attempt)
    await _until(gate)
    return ctx.result(number, final=final)


@app.task
async def debate(ctx: Context, sides: int, gate: str, later: str) -> Plan[None, int]:
    """Children that all want the last word, beside others that only speak, some of them later."""
    final = [says.job(number, gate, final=True) for number in range(sides)]
    plain = [says.job(1000 + number, gate, final=False) for number in range(sides)]
    after = [says.job(2000 + number, later, final=number > 0) for number in range(2)]
    return ctx.queue(*final, *plain, *after)


# -- fan-out and fan-in ----------------------------------------------------------------------------


@app.task(retry=1)
async def part(ctx: Context, number: int, *, fails: bool) -> Plan[int, int]:
    """Count itself, or fail for good."""
    note("start", ctx.id, ctx.attempt)
    await asyncio.sleep(0.02)
    if fails:
        raise offpath.Abort(f"{number} fails")
    return ctx.result(1, append=operator.add)


@app.task
async def gathered(ctx: Context, parts: list[str], what: str) -> None:
    """The job behind them: writes down whether one of its parts had not ended."""
    note(f"start-{what}", ctx.id, ctx.attempt)
    states = await ctx.states(parts)
    if len(states) < len(parts) or not all(state.terminal for state in states.values()):
        note("early", ctx.id, ctx.attempt)


@app.task
async def fan(ctx: Context, width: int, failing: int) -> Plan[None, int]:
    """Children of which some fail, and what follows when all ended, and when all succeeded."""
    note("start", ctx.id, ctx.attempt)
    parts = [part.job(number, fails=number < failing) for number in range(width)]
    ids = [child.id for child in parts]
    settled, succeeded = gathered.job(ids, "settled"), gathered.job(ids, "succeeded")
    return ctx.queue(
        ctx.queue(*parts).next(settled, when=offpath.all_settled),
        offpath.gate(on=parts, queue=[succeeded]),
    )


# -- every end -------------------------------------------------------------------------------------


@app.task
async def leaf(ctx: Context, name: str) -> str:
    """Succeed."""
    note(f"leaf-{name}", ctx.id, ctx.attempt)
    return name


@app.task(retry=1)
async def breaks(ctx: Context, gate: str | None = None) -> None:
    """Fail for good, once the gate is there."""
    if gate is not None:
        await _until(gate)
    raise RuntimeError("no")


@app.task
async def held(ctx: Context, gate: str) -> str:
    """Run until the gate is there."""
    note("start", ctx.id, ctx.attempt)
    await _until(gate)
    return "held"


@app.task(queue=DEADLY)
async def suicidal(ctx: Context) -> None:
    """Kill the worker."""
    note("start", ctx.id, ctx.attempt)
    os.kill(os.getpid(), signal.SIGKILL)


_elsewhere = offpath.App("memory://", auto_start=False)


def _foreign(task: str, **arguments: Any) -> Job[Any, Any]:
    """A job as another service makes it, which does not know the task's arguments."""
    made: Job[Any, Any] = _elsewhere.by_name(task, registered=False).job(**arguments)
    return made


def _members(gate: str) -> dict[str, Job[Any, Any]]:
    return {
        "succeeds": leaf.job("member"),
        "aborts": part.job(0, fails=True),
        "uses up its attempts": breaks.job(),
        "is late": leaf.options(delay=1, deadline=0.5).job("never"),
        "cannot be read": _foreign(leaf.name, nobody=17),
        "is of a task nobody knows, and cancelled": _foreign("nobody.knows"),
        "is cancelled in the queue": leaf.options(delay=60).job("never"),
        "is cancelled while it runs": held.job(gate + "-never"),
        "loses its workers": suicidal.job(),
        "is deleted after its end": part.job(0, fails=True),
    }


@app.task
async def workflow(ctx: Context, way: str, gate: str) -> Plan[None, str | int]:
    """A member that ends in some way, one beside it, and one that follows both."""
    member = _members(gate)[way]
    note(f"member-{member.id}", ctx.id, ctx.attempt)
    beside, after = held.job(gate), leaf.job("after")
    return ctx.queue(member, beside).next(after, when=offpath.all_settled)


WAYS = tuple(_members(""))


@app.task(group_policy="fail_fast")
async def fragile(ctx: Context, breaking: str, holding: str) -> Plan[None, str]:
    """One child that breaks, among others that run or wait for long."""
    running = [held.job(holding) for _ in range(4)]
    waiting = [leaf.options(delay=3600).job("never") for _ in range(4)]
    gated = offpath.gate(on=running, queue=[leaf.job("gated")])
    return ctx.queue(breaks.job(breaking), *running, *waiting, gated)


# -- long waits ------------------------------------------------------------------------------------


@app.task
async def approved(ctx: Context, seconds: float) -> list[Any]:
    """Sleep, then wait for a signal."""
    note("start", ctx.id, ctx.attempt)
    await ctx.sleep(seconds)
    note("slept", ctx.id, ctx.attempt)
    return ["slept", await ctx.wait_for("approve", type=str)]


@app.task
async def patient(ctx: Context) -> str:
    """Wait for a signal."""
    return await ctx.wait_for("never", type=str)
