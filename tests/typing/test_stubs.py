"""The answers of type checkers about a module that `offpath stubs` wrote."""

from __future__ import annotations

from typing import assert_type

import offpath
from offpath import Handle, Job
from tests.typing.shop_tasks import Line, Order, Receipt, Size, Tasks

app = offpath.App()
shop = Tasks(app)


async def calls() -> None:
    order = Order(number=1, lines=[Line(sku="a")])
    assert_type(order.size, Size)
    handle = await shop.shop_invoice.enqueue(order, copies=2, mode="b")
    assert_type(handle, Handle[Receipt, Receipt])
    assert_type((await handle.result()).number, int)
    assert_type(shop.split.job(1), Job[None, int])
    assert_type(await shop.many.options(queue="q").enqueue("name"), Handle[int, int])
    await shop.anything.enqueue(1, 2, a="b")


async def refused() -> None:
    await shop.shop_invoice.enqueue("order")  # type: ignore[arg-type]
    await shop.shop_invoice.enqueue(Order(number=1, lines=[]), mode="c")  # type: ignore[arg-type]
    await shop.split.enqueue(n=1)  # type: ignore[call-arg]
    await shop.no_such_task.enqueue()  # type: ignore[attr-defined]
