"""The answers of type checkers about tasks: enqueuing is checked like the call itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import offpath
from offpath.retries import RetryState
from offpath import App, Context, Handle, Job

app = App()


@dataclass
class Receipt:
    number: int


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task
def shout(text: str, *, times: int = 1) -> str:
    return text.upper() * times


@app.task(name="charge", retry=5, queue="money", timeout=timedelta(minutes=1), tags=["money"])
async def charge(ctx: Context, customer: str, amount: int = 0) -> Receipt:
    return Receipt(amount)


@app.task(unique=lambda path: path, options=lambda path: offpath.Options(priority=1))
def scan(ctx: Context, path: str) -> None:
    return None


@app.task(retry=offpath.Backoff.half_jitter(base=0.5, cap=60))
def nothing() -> None:
    return None


async def enqueuing() -> None:
    assert_type(await add.enqueue(1, 2), Handle[int, int])
    assert_type(await add.enqueue(a=1, b=2), Handle[int, int])
    assert_type(await shout.enqueue("a", times=2), Handle[str, str])
    assert_type(await charge.enqueue("c", amount=3), Handle[Receipt, Receipt])
    assert_type(await scan.enqueue("/tmp"), Handle[None, None])
    assert_type(await nothing.enqueue(), Handle[None, None])


async def results() -> None:
    assert_type(await (await add.enqueue(1, 2)).result(), int)
    assert_type(await (await charge.enqueue("c")).result(timeout=5), Receipt)
    assert_type(await charge.handle("id").result(timeout=timedelta(seconds=1)), Receipt)
    handle = await add.enqueue(1, 2)
    assert_type(await handle.status(), offpath.JobRecord)
    assert_type(await handle.progress(), offpath.Progress | None)
    assert_type(await handle.cancel(), bool)


async def jobs() -> None:
    one = add.job(1, 2)
    assert_type(one, Job[int, int])
    assert_type(await app.enqueue(one), Handle[int, int])
    assert_type(await app.enqueue([one, add.job(3, 4)]), list[Handle[int, int]])
    assert_type(app.blocking.enqueue(one), offpath.BlockingHandle[int, int])
    assert_type(app.blocking.enqueue(one).result(), int)
    mixed: list[Job[object, object]] = [one, shout.job("a")]
    assert_type(await app.enqueue(mixed), list[Handle[object, object]])
    assert_type(await app.enqueue_by_name("add", a=1, b=2), Handle[Any, Any])


async def options() -> None:
    later = add.options(delay=5, priority=3, queue="q", unique="k", tags=["t"])
    assert_type(await later.enqueue(1, 2), Handle[int, int])
    assert_type(later.job(1, 2), Job[int, int])
    until = shout.options(run_at=datetime.now(UTC), deadline=timedelta(hours=1), retry=2)
    assert_type(await until.enqueue("a"), Handle[str, str])
    assert_type(await add.options(within=object()).enqueue(1, 2), Handle[int, int])
    unique = offpath.Unique(key="k", period=60, policy="refuse")
    assert_type(charge.options(unique=unique).job("c"), Job[Receipt, Receipt])


async def calling() -> None:
    assert_type(await add(1, 2), int)
    assert_type(shout("a"), str)
    a_call: Callable[[int, int], Coroutine[Any, Any, int]] = add
    assert_type(await a_call(1, 2), int)


async def calling_with_a_context(ctx: Context) -> None:
    assert_type(await charge(ctx, "c"), Receipt)
    scan(ctx, "/tmp")


async def what_the_checker_refuses(ctx: Context) -> None:
    await add.enqueue(1)  # type: ignore[call-arg]
    await add.enqueue(1, "2")  # type: ignore[arg-type]
    await add.enqueue(1, 2, 3)  # type: ignore[call-arg]
    await add.enqueue(1, c=2)  # type: ignore[call-arg]
    shout.job("a", 2)  # type: ignore[call-arg]
    await charge.enqueue(ctx, "c")  # type: ignore[arg-type]
    await charge("c")  # type: ignore[call-arg,arg-type]
    add.options(dealy=5)  # type: ignore[call-arg]
    add.options(delay="5")  # type: ignore[arg-type]
    add.options(priority=1.5)  # type: ignore[arg-type]
    later = add.options(delay=5)
    await later.enqueue("1", 2)  # type: ignore[arg-type]
    await app.enqueue(5)  # type: ignore[call-overload]
    wrong: Job[str, str] = add.job(1, 2)  # type: ignore[assignment]
    wrong_result: str = await (await add.enqueue(1, 2)).result()  # type: ignore[assignment]
    app.blocking.enqueue(add)  # type: ignore[call-overload]

    @app.task(qeue="x")  # type: ignore[call-overload]
    def misspelt() -> None:
        return None

    assert wrong, wrong_result


def retrying() -> None:
    assert_type(offpath.retry(lambda: 5), int)

    async def fetch() -> str:
        return ""

    async def with_state(state: RetryState) -> bytes:
        return b""

    async def use() -> None:
        assert_type(await offpath.retry(fetch, 5), str)
        assert_type(await offpath.retry(with_state, offpath.Backoff.half_jitter()), bytes)

    assert use is not None
