"""A service whose tasks another one calls: ``shop_tasks.py`` is what `offpath stubs` writes of it."""

from __future__ import annotations

import dataclasses
import enum
from datetime import date
from typing import Annotated, Literal

import msgspec

import offpath

app = offpath.App()


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


@dataclasses.dataclass
class Order:
    number: int
    lines: list[Line]
    size: Size = Size.SMALL
    notes: list[str] = dataclasses.field(default_factory=list)


class Receipt(msgspec.Struct):
    number: int
    lines: int
    size: Size
    day: date | None = None


@app.task(
    name="shop.invoice",
    queue="money",
    priority=3,
    retry=7,
    limit=offpath.Limit("api", max_running=2, rate=offpath.Rate(500, per=60)),
)
async def invoice(
    ctx: offpath.Context, order: Order, copies: int = 1, *, mode: Literal["a", "b"] = "a"
) -> Receipt:
    """Write an "invoice"."""
    if mode == "b" and ctx.attempt < 2:
        raise offpath.errors.RetryAfter(0)
    return Receipt(order.number * copies, len(order.lines), order.size)


@app.task(unique=lambda n, when: f"{n}")
def split(
    n: Annotated[int, msgspec.Meta(ge=0)], when: date = date(2026, 1, 1), /
) -> offpath.Plan[None, int] | None:
    return None


@app.batch_task(size=5)
async def many(names: list[str]) -> list[int]:
    return [len(name) for name in names]


@app.task(unique="one", tags=["a"], deadline=3600)
def anything(*args: int, **more: str) -> dict[str, tuple[int, ...]]:
    return {name: args for name in more}
