"""Children of a fork: each opens the app anew, and the parent's goes on as if nothing had been."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.fleet import ROOT
from tests.sqlite_files import migrated_url

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


HAMMERED = """
import os, sys, threading
import offpath

app = offpath.App(sys.argv[1])

@app.task
def work(number: int) -> int:
    return number

app.blocking.enqueue(work.job(0))
over = threading.Event()

def hammer():
    while not over.is_set():
        app.blocking.enqueue(work.job(1))
        app.blocking.jobs.count()

threads = [threading.Thread(target=hammer, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(25):
    child = os.fork()
    if child == 0:
        app.blocking.enqueue(work.options(queue="children").job(2))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
over.set()
for thread in threads:
    thread.join()
print("children", app.blocking.jobs.count(queue="children"), flush=True)
os._exit(0)
"""


@pytest.mark.timeout(150)
def test_children_of_a_parent_whose_threads_use_the_store_hang_on_nothing(url: str) -> None:
    """A lock or a mutex that another thread has at the fork is held in the child for ever."""
    assert _said(HAMMERED, url) == ["children 25"]


CLOSED_BY_THE_PARENT = """
import os, sys
import offpath

app = offpath.App(sys.argv[1])

@app.task
def work(number: int) -> int:
    return number

app.blocking.enqueue(work.job(0))
asked, told = os.pipe(), os.pipe()
if os.fork() == 0:
    app.blocking.enqueue(work.job(1))
    os.write(told[1], b"x")
    os.read(asked[0], 1)
    app.blocking.enqueue(work.job(2))
    os._exit(0)
os.read(told[0], 1)
app.blocking.close()
os.write(asked[1], b"x")
print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
with offpath.App(sys.argv[1]).blocking as again:
    print("jobs", again.jobs.count(), flush=True)
"""


@pytest.mark.timeout(120)
def test_a_child_goes_on_when_its_parent_closes_the_store(url: str) -> None:
    """SQLite's last connection removes the log: the child's must count, as in a preload server."""
    assert _said(CLOSED_BY_THE_PARENT, url) == ["child 0", "jobs 3"]


HELD = """
import os, sys, threading
import offpath
from offpath.runtime import forks
from offpath.runtime.threads import Threads

app = offpath.App(sys.argv[1])

@app.task
def child(number: int) -> int:
    return number

@app.task
def parent(ctx: offpath.Context, number: int) -> bool:
    ctx.enqueue(child.job(number))
    return ctx.cancelled.is_set()

pool = Threads(1)

async def use():
    async with app:
        handle = await app.enqueue(parent.job(1))
        await app.worker().run_until_idle()
        assert await handle.result() is False
        assert await pool.run(os.getpid) == os.getpid()

def used():
    app.blocking.enqueue(child.job(1))
    app.blocking.close()
    import asyncio
    asyncio.run(use())

used()
app.blocking.open()
app.blocking.enqueue(child.job(2))
held, over = threading.Event(), threading.Event()

def hold():
    for thing in tuple(forks._KNOWN):
        thing.__enter__() if isinstance(thing, forks.ProcessLock) else thing._lock.acquire()
    held.set()
    over.wait()

threading.Thread(target=hold, daemon=True).start()
assert held.wait(20)
assert pool in forks._KNOWN
if os.fork() == 0:
    used()
    print("child", flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
os._exit(0)
"""


@pytest.mark.timeout(120)
def test_a_child_finds_free_what_another_thread_holds_at_the_fork(url: str) -> None:
    assert _said(HELD, url) == ["child", "0"]


SPOILT = """
import os, sys, threading
import offpath
from offpath.store.sqlite import forks

forks.PATIENCE = 0.2
app = offpath.App(sys.argv[1])

@app.task
def work(number: int) -> int:
    return number

app.blocking.enqueue(work.job(0))
inside, over = threading.Event(), threading.Event()

def use():
    with forks.GATE:
        inside.set()
        over.wait()

threading.Thread(target=use, daemon=True).start()
inside.wait()
if os.fork() == 0:
    try:
        app.blocking.enqueue(work.job(1))
    except offpath.errors.StoreUnavailable as error:
        print("was forked while its parent used SQLite" in str(error), flush=True)
    os._exit(0)
os.wait()
over.set()
app.blocking.enqueue(work.job(2))
print(app.blocking.jobs.count(), flush=True)
"""


@pytest.mark.timeout(120)
def test_the_child_of_a_fork_that_could_not_wait_opens_no_file(tmp_path: Path) -> None:
    """Locks that it cannot trust are worse than an error; the parent goes on."""
    assert _said(SPOILT, migrated_url(tmp_path / "work.db")) == ["True", "2"]


SNAPSHOT = """
import asyncio, os, sys
import offpath

app = offpath.App(sys.argv[1])

async def main():
    async with app:
        async with app.store().ledger_snapshot() as moment:
            await moment.ledger_last()
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            try:
                await moment.ledger_last()
            except offpath.errors.StoreUnavailable as error:
                print("a fork has ended the snapshot" in str(error))
        async with app.store().ledger_snapshot() as moment:
            print(await moment.ledger_last())

asyncio.run(main())
"""


@pytest.mark.timeout(120)
def test_a_snapshot_ends_with_a_fork_and_another_one_can_begin(tmp_path: Path) -> None:
    assert _said(SNAPSHOT, migrated_url(tmp_path / "work.db")) == ["True", "0"]


def _said(program: str, url: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert not done.stderr, done
    return done.stdout.splitlines()
