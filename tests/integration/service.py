"""The service whose workers the tests start, stop, freeze and kill: ``service:app``.

Each handler writes to the journal when it starts and when it ends. Handlers that wait do so for a
file, so that the test decides when they go on.
"""

# ruff: noqa: ASYNC110, ASYNC251 - a file is the only signal that reaches every process, and handlers
# that block the loop are among what is tried
from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import offpath
from tests.integration.journal import note


def _record(event: offpath.JobEvent) -> None:
    """Told after the commit that recorded it."""
    note(f"recorded-{event.kind}", event.id, event.attempt)


app = offpath.App(on_event=_record)


@app.task
async def work(ctx: offpath.Context, seconds: float) -> int:
    """Take a while, and leave one job behind."""
    note("start", ctx.id, ctx.attempt)
    await asyncio.sleep(seconds)
    ctx.enqueue(child.job())
    return os.getpid()


@app.task
async def stint(ctx: offpath.Context, seconds: float) -> None:
    """Take a while. Notes each delivery, and its end on whatever way it is left."""
    note("start", ctx.id, ctx.deliveries)
    try:
        await asyncio.sleep(seconds)
    finally:
        note("end", ctx.id, ctx.deliveries)


@app.task
async def pill(ctx: offpath.Context) -> None:
    """Kill the worker."""
    note("start", ctx.id, ctx.attempt)
    os._exit(1)


@app.task
async def child() -> None:
    """The trace that ``work`` leaves behind."""


@app.task
async def held(ctx: offpath.Context, gate: str) -> int:
    """Run until the gate is there."""
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    note("end", ctx.id, ctx.attempt)
    return os.getpid()


def _step(job: str, name: str) -> str:
    note(f"step-{name}", job, 1)
    return name


@app.task
async def chain(ctx: offpath.Context, gate: str) -> list[str]:
    """Two steps, a gate, a step, a signal, a step."""
    note("start", ctx.id, ctx.attempt)
    done = [await ctx.step(name, _step, ctx.id, name) for name in ("first", "second")]
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    done.append(await ctx.step("third", _step, ctx.id, "third"))
    await ctx.sleep(0.1)
    done.append(await ctx.wait_for("go", type=str, timeout=120))
    done.append(await ctx.step("fourth", _step, ctx.id, "fourth"))
    return done


@app.task
async def undone(job: str, what: str) -> None:
    """Undo a step of a job."""
    note(f"undo-{what}", job, 1)


@app.task
async def saga(ctx: offpath.Context, gate: str) -> None:
    """Two steps that can be undone, then a gate."""
    note("start", ctx.id, ctx.attempt)
    for name in ("charge", "reserve"):
        await ctx.on_abort(undone.job(ctx.id, name))
        await ctx.step(name, _step, ctx.id, name)
    while not Path(gate).exists():
        await asyncio.sleep(0.02)


@app.task
def held_in_thread(ctx: offpath.Context, gate: str) -> int:
    """Run in a thread until the gate is there, or the worker gives it up."""
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        if ctx.cancelled.wait(0.02):
            note("told", ctx.id, ctx.attempt)
            raise RuntimeError("told to end")
    note("end", ctx.id, ctx.attempt)
    return os.getpid()


@app.task
async def stubborn(ctx: offpath.Context, gate: str) -> None:
    """Ignore that it is cancelled."""
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            note("ignored", ctx.id, ctx.attempt)


@app.task
async def blocking(ctx: offpath.Context, gate: str) -> int:
    """Block the worker's event loop, heartbeat and all, until the gate is there."""
    note("start", ctx.id, ctx.attempt)
    if ctx.deliveries == 1:
        while not Path(gate).exists():
            time.sleep(0.02)
    return os.getpid()


@app.task
async def suicidal(ctx: offpath.Context) -> None:
    """Kill the worker."""
    note("start", ctx.id, ctx.attempt)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def forking(ctx: offpath.Context, gate: str) -> None:
    """Fork a child that outlives the worker, and run until the gate is there."""
    child_pid = os.fork()
    if child_pid == 0:
        while not Path(gate).exists():
            time.sleep(0.02)
        os._exit(0)
    note("forked", ctx.id, ctx.attempt, child_pid)
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    # not in the way of the loop: the child ends on the same signal
    threading.Thread(target=os.waitpid, args=(child_pid, 0)).start()


@app.task
async def flaky(ctx: offpath.Context, gate: str) -> None:
    """Fail once the gate is there, at the first attempt."""
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")


@app.task
async def snoozing(ctx: offpath.Context, gate: str) -> None:
    """Put itself off once the gate is there, at the first delivery."""
    note("start", ctx.id, ctx.attempt)
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    if ctx.deliveries == 1:
        raise offpath.Snooze(0.1)


@app.task
async def idling(ctx: offpath.Context, seconds: float) -> int:
    """Block the worker's event loop by sleeping."""
    note("start", ctx.id, ctx.attempt)
    time.sleep(seconds)
    return os.getpid()


@app.task
async def computing(ctx: offpath.Context, seconds: float) -> int:
    """Block the worker's event loop by working."""
    note("start", ctx.id, ctx.attempt)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1_000))
    return os.getpid()


@app.task
async def holding_the_lock(ctx: offpath.Context, seconds: float) -> int:
    """Stop every thread of the worker: a call in C that keeps the interpreter's lock."""
    note("start", ctx.id, ctx.attempt)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return os.getpid()


@app.task
async def hoarding(ctx: offpath.Context, gate: str) -> int:
    """Open files until there is no descriptor left, and keep them until the gate is there."""
    note("start", ctx.id, ctx.attempt)
    held: list[int] = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    for one in held:
        os.close(one)
    return len(held)


@app.task
async def in_the_executor(ctx: offpath.Context, seconds: float) -> int:
    """Fill the event loop's default executor."""
    note("start", ctx.id, ctx.attempt)
    await asyncio.to_thread(time.sleep, seconds)
    return os.getpid()
