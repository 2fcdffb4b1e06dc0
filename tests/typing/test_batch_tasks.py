"""The answers of type checkers about batch tasks: many inputs in the handler, one in each enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_type

import offpath
from offpath.workers import AdaptiveDelay
from offpath import App, Context, Handle, Job, Plan
from offpath.batch_tasks import BatchContext, BatchItem
from offpath.records import PartOutcome

app = App()


@dataclass
class Receipt:
    number: int


@app.batch_task(size=50, max_wait=0.2, queue="ml", retry=5)
async def embed(texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


@app.batch_task(size=10)
def charge(amounts: list[int]) -> list[Receipt | Exception]:
    return [Receipt(amount) if amount else ValueError("nothing") for amount in amounts]


@app.batch_task(size=10, unique=lambda path: path)
async def scan(paths: Sequence[str]) -> Sequence[int | BaseException | None]:
    return [len(path) for path in paths]


@app.batch_task(size=10, strict=False, log_context=lambda text: {"text": text})
async def index(ctx: BatchContext, texts: list[str]) -> list[int]:
    assert_type(ctx.items, tuple[BatchItem, ...])
    for item, text in zip(ctx.items, texts, strict=True):
        assert_type(item.id, str)
        item.enqueue(embed.job(text))
        assert_type(item.publish("indexed", text), str)
        await item.progress(1, 2)
        assert_type(await item.claim(text), bool)
    return [len(text) for text in texts]


@app.batch_task(size=10)
def store(ctx: BatchContext, texts: list[str]) -> list[int | ValueError]:
    assert_type(ctx.blocking(ctx.items[0].claim("a")), bool)
    return [len(text) for text in texts if not ctx.cancelled]


@app.batch_task(size=10)
async def fan(ctx: BatchContext, texts: list[str]) -> list[Plan[None, float] | Exception]:
    return [item.queue(embed.job(text)) for item, text in zip(ctx.items, texts, strict=True)]


@app.batch_task(size=10)
def perhaps(ctx: BatchContext, numbers: list[int]) -> list[Plan[int, int] | None]:
    return [item.result(n) if n else None for item, n in zip(ctx.items, numbers, strict=True)]


@app.batch_task(size=10)
async def joined(ctx: BatchContext, names: list[str]) -> list[float]:
    for item in ctx.items:
        assert_type(await item.results(embed), list[float])
        assert_type(await item.outcomes(), list[PartOutcome])
    return [sum(await item.results(embed)) for item in ctx.items]


async def with_a_context() -> None:
    assert_type(await index.enqueue("a"), Handle[int, int])
    assert_type(await fan.enqueue("a"), Handle[None, float])
    assert_type(await perhaps.enqueue(1), Handle[int | None, int | None])
    assert_type(fan.job("a"), Job[None, float])
    assert_type(await (await fan.enqueue("a")), float)


async def what_a_call_has_not(ctx: BatchContext, item: BatchItem) -> None:
    await item.step("pay", len, "a")  # type: ignore[attr-defined]
    await item.sleep(5)  # type: ignore[attr-defined]
    await item.wait_for("approved")  # type: ignore[attr-defined]
    ctx.publish("indexed")  # type: ignore[attr-defined]
    await fan.enqueue(ctx, "a")  # type: ignore[arg-type, call-arg]
    wrong: Job[float, float] = fan.job("a")  # type: ignore[assignment]

    @app.batch_task(size=5)  # type: ignore[arg-type]
    def plain(ctx: Context, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    assert wrong, plain


async def enqueuing() -> None:
    assert_type(await embed.enqueue("a"), Handle[float, float])
    assert_type(await charge.enqueue(3), Handle[Receipt, Receipt])
    assert_type(await (await scan.enqueue("/tmp")).result(), int | None)
    assert_type(await (await embed.enqueue("a")).result(), float)
    assert_type(embed.job("a"), Job[float, float])
    assert_type(await app.enqueue(embed.job("a")), Handle[float, float])
    later = charge.options(delay=5, priority=3)
    assert_type(await later.enqueue(1), Handle[Receipt, Receipt])


async def beginning_at_once() -> None:
    assert_type(await embed.options(inline=True).enqueue("a"), Handle[float, float])
    assert_type(await app.enqueue(embed.job("a"), inline=True), Handle[float, float])
    await app.enqueue([embed.job("a")], inline=True)  # type: ignore[call-overload]
    embed.options(inline=1)  # type: ignore[arg-type]


def hooks() -> None:
    app.worker(backpressure=AdaptiveDelay(base=0.5), accept=lambda offer: offer.task == "a")
    app.configure_workers(on_backlog=lambda behind: print(behind.queued))
    app.worker(accept=lambda offer: offer.nothing)  # type: ignore[attr-defined]
    app.configure_workers(acept=None)  # type: ignore[call-arg]


async def calling() -> None:
    assert_type(await embed(["a", "b"]), Sequence[float | Exception | BaseException])
    assert_type(charge([1]), Sequence[Receipt | Exception | BaseException])


async def what_the_checker_refuses() -> None:
    await embed.enqueue(1)  # type: ignore[arg-type]
    await embed.enqueue(["a"])  # type: ignore[arg-type]
    await embed.enqueue("a", "b")  # type: ignore[call-arg]
    wrong: Job[str, str] = embed.job("a")  # type: ignore[assignment]
    app.batch_task()  # type: ignore[call-arg]
    app.batch_task(size=5, stricter=True)  # type: ignore[call-arg]

    @app.batch_task(size=5)  # type: ignore[arg-type]
    def no_list(text: str) -> list[int]:
        return [len(text)]

    assert wrong, no_list
