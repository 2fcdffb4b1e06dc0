"""Children of a fork: each opens the app anew, and the parent's goes on as if nothing had been."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.fleet import ROOT

PROGRAM = """
import asyncio, os, sys
import offpath

app = offpath.App(sys.argv[1])

@app.task
def work(number: int) -> int:
    return number

def plain():
    app.blocking.enqueue(work.job(2))

def entered():
    with app.blocking:
        app.blocking.enqueue(work.job(3))

def in_a_loop():
    async def enqueue():
        async with app:
            await app.enqueue(work.job(4))
    asyncio.run(enqueue())

def closed_first():
    app.blocking.close()
    with app.blocking:
        app.blocking.enqueue(work.job(5))

def another_app():
    other = offpath.App(sys.argv[1])
    other.tasks.add(work)
    with other.blocking:
        other.blocking.enqueue(work.job(6))

app.blocking.enqueue(work.job(1))
for way in (plain, entered, in_a_loop, closed_first, another_app):
    child = os.fork()
    if child == 0:
        try:
            way()
        except BaseException as error:
            print(way.__name__, type(error).__name__, error)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(way.__name__, os.waitstatus_to_exitcode(status), flush=True)
    app.blocking.enqueue(work.job(1))
print("jobs", app.blocking.jobs.count())
"""


@pytest.mark.timeout(120)
def test_a_child_opens_the_app_anew_in_each_way_and_the_parent_goes_on(url: str) -> None:
    """The parent has used ``app.blocking`` before: gunicorn with preload, multiprocessing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    ways = ("plain", "entered", "in_a_loop", "closed_first", "another_app")
    assert done.stdout.splitlines() == [*(f"{way} 0" for way in ways), "jobs 11"], done


THREADED = """
import os, threading
import offpath

app = offpath.App("memory://")
told = threading.Event()

@app.outbox("mail")
def dispatch(event: offpath.events.Event) -> None:
    told.set()

def relayed():
    told.clear()
    app.blocking.publish("order.paid", stream="mail")
    return told.wait(20)

print("parent", relayed(), flush=True)
child = os.fork()
if child == 0:
    with app.blocking:
        print("child", relayed(), flush=True)
    print("closed", flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", relayed(), flush=True)
app.blocking.close()
"""


@pytest.mark.timeout(120)
def test_a_child_has_workers_and_threads_of_its_own() -> None:
    """A thread does not live on in a child: what waits for one of the parent's waits for ever."""
    done = subprocess.run(
        [sys.executable, "-c", THREADED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout.splitlines() == ["parent True", "child True", "closed", "parent True"], done


BUSY = """
import asyncio, os, sys, threading
import offpath

busy, go_on = threading.Event(), threading.Event()
told = []

async def on_event(event):
    told.append((event.kind.value, event.id))
    busy.set()
    while os.getpid() == PARENT and not go_on.is_set():
        await asyncio.sleep(0.01)

async def on_orphan_group(group):
    told.append(("orphan", group.id))

PARENT = os.getpid()
app = offpath.App(sys.argv[1], on_event=on_event, on_orphan_group=on_orphan_group)

@app.task
def work(number: int) -> int:
    return number

app.blocking.enqueue(work.job(1))
assert busy.wait(20)
second = app.blocking.enqueue(work.job(2))
name = app._orphans._me
child = os.fork()
if child == 0:
    told.clear()
    with app.blocking:
        own = app.blocking.enqueue(work.job(3))
    print("child", told == [("queued", own.id)], app._orphans._me != name, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print("ended", os.waitstatus_to_exitcode(status), len(told), flush=True)
go_on.set()
app.blocking.close()
print("parent", len(told), told[1][1] == second.id, flush=True)
"""


@pytest.mark.timeout(120)
def test_a_child_of_a_busy_hook_tells_its_own_events_and_none_of_its_parents(url: str) -> None:
    """The task that calls async hooks is the parent's: it turns in no loop of the child."""
    done = subprocess.run(
        [sys.executable, "-c", BUSY, url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout.splitlines() == ["child True True", "ended 0 1", "parent 2 True"], done
