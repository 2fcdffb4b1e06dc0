import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from offpath.errors import AppClosed, InvalidArgument
from offpath.runtime.threads import Threads

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def test_results_errors_and_context_come_through() -> None:
    threads = Threads(2)
    WHO.set("me")
    assert await threads.run(lambda: (WHO.get(), threading.current_thread().daemon)) == ("me", True)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(lambda: next(iter(())))
    threads.close()


async def test_system_exit_in_a_thread_reaches_only_the_caller() -> None:
    threads = Threads(1)

    def leave() -> None:
        raise SystemExit(3)

    future = threads.run(leave)
    await asyncio.wait({future})
    assert isinstance(future.exception(), SystemExit)
    assert await threads.run(lambda: "alive") == "alive"
    threads.close()


async def test_threads_grow_as_needed_and_no_further() -> None:
    threads = Threads(3)
    for _ in range(5):
        await threads.run(lambda: None)
    assert threads.started == 1

    gate = threading.Event()
    calls = [threads.run(lambda: gate.wait(10)) for _ in range(5)]
    assert threads.started == 3
    gate.set()
    assert await asyncio.gather(*calls) == [True] * 5
    assert (threads.working, threads.started) == (0, 3)
    threads.close()


async def test_giving_up_on_a_call_does_not_lose_the_thread() -> None:
    threads = Threads(1)
    gate, entered = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        gate.wait(10)

    call = threads.run(hold)
    await asyncio.get_running_loop().run_in_executor(None, entered.wait, 10)
    call.cancel()
    assert threads.working == 1
    following = threads.run(lambda: "next")
    gate.set()
    assert await following == "next"
    threads.close()


async def test_a_call_that_was_given_up_before_it_began_is_not_made() -> None:
    threads = Threads(1)
    gate, made = threading.Event(), list[str]()
    first = threads.run(lambda: gate.wait(10))
    given_up = threads.run(lambda: made.append("given up"))
    after = threads.run(lambda: made.append("after"))
    given_up.cancel()
    gate.set()
    await asyncio.gather(first, after)
    assert made == ["after"]
    threads.close()


async def test_close_ends_idle_threads_and_refuses_calls() -> None:
    threads = Threads(2)
    thread = await threads.run(threading.current_thread)
    threads.close()
    threads.close()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(AppClosed):
        await threads.run(lambda: None)


async def test_no_threads_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        Threads(0)


async def test_when_the_system_has_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(5)
    gate = threading.Event()
    first = threads.run(lambda: gate.wait(10))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = threads.run(lambda: "ran")
    gate.set()
    assert await second == "ran"
    assert await first is True
    threads.close()
    with pytest.raises(RuntimeError, match="start new thread"):
        await Threads(1).run(lambda: None)


HANGING = """
import asyncio, threading
from offpath.runtime.threads import Threads
async def main():
    entered = threading.Event()
    def hang():
        entered.set()
        threading.Event().wait()
    call = Threads(1).run(hang)
    await asyncio.to_thread(entered.wait)
    call.cancel()
asyncio.run(main())
print("ended")
"""


def test_a_handler_that_hangs_does_not_hold_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "ended\n"
    assert done.stderr == ""
