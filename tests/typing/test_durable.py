"""The answers of type checkers about durable steps: a step has the type of its function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from offpath import App, Context

app = App()


@dataclass
class Receipt:
    number: int


async def pay(order: str, *, amount: int = 0) -> Receipt:
    return Receipt(amount)


def ship(receipt: Receipt) -> str:
    return str(receipt.number)


@app.task
async def label(order: str) -> bytes:
    return order.encode()


@app.task
async def refund(order: str) -> None:
    return None


async def steps(ctx: Context) -> None:
    receipt = await ctx.step("pay", pay, "A-1", amount=5)
    assert_type(receipt, Receipt)
    assert_type(await ctx.step("ship", ship, receipt), str)
    assert_type(await ctx.step("label", label, "A-1"), bytes)
    assert_type(await ctx.step("made", lambda: 7), int)
    await ctx.step("pay again", pay, 5)  # type: ignore[call-overload]
    await ctx.step("ship again", ship)  # type: ignore[call-overload]


async def waits(ctx: Context) -> None:
    assert_type(await ctx.wait_for("paid", type=Receipt, timeout=60), Receipt)
    assert_type(await ctx.wait_for("paid", key="A-1"), Any)
    assert_type(await ctx.sleep(60), None)
    await ctx.on_abort(refund.job("A-1"))
    await ctx.on_abort(refund)  # type: ignore[arg-type]


def blocking(ctx: Context) -> None:
    assert_type(ctx.blocking(ctx.step("ship", ship, Receipt(1))), str)
    assert_type(ctx.blocking(ctx.wait_for("paid", type=int)), int)


async def signals() -> None:
    assert_type(await app.signal("A-1", "paid", Receipt(1)), bool)
    assert_type(app.blocking.signal(refund.job("A-1"), "paid"), bool)
