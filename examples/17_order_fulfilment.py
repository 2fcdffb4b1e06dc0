"""An order: paid, approved by a person days later, shipped; and undone when shipping fails."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from msgspec import Struct

from offpath import App, Context, SignalTimeout
from offpath.testing import ManualClock, drain, pass_time

clock = ManualClock()
app = App(auto_start=False, clock=clock)


class Approval(Struct):
    """The decision of a person."""

    by: str
    granted: bool


async def charge(order: str) -> str:
    print(f"{order}: charged")  # the order's id is the key that makes it safe to call again
    return f"receipt-{order}"


async def ask_for_approval(order: str) -> None:
    print(f"{order}: please approve")


async def ship(order: str) -> str:
    if order == "B-2":
        raise ConnectionError("no truck goes there")
    return f"parcel-{order}"


@app.task
async def refund(order: str) -> None:
    print(f"{order}: refunded")


@app.task
async def cancel_reservation(order: str) -> None:
    print(f"{order}: reservation cancelled")


@app.task(retry=2)
async def fulfil(ctx: Context, order: str) -> str:
    await ctx.on_abort(refund.job(order))
    await ctx.step("charge", charge, order)
    await ctx.step("ask", ask_for_approval, order)
    try:
        approval = await ctx.wait_for("approval", type=Approval, timeout=timedelta(days=14))
    except SignalTimeout:
        approval = Approval(by="nobody", granted=False)
    if not approval.granted:
        raise PermissionError(f"not approved by {approval.by}")
    await ctx.on_abort(cancel_reservation.job(order))
    parcel = await ctx.step("ship", ship, order)
    return f"{parcel}, approved by {approval.by}"


async def main() -> None:
    async with app:
        good, bad, forgotten = [await fulfil.enqueue(order) for order in ("A-1", "B-2", "C-3")]
        await drain(app)

        # A week passes, with restarts and deploys: the orders wait, and hold nothing.
        await pass_time(app, clock, timedelta(days=7))
        for handle in (good, bad):
            await app.signal(handle, "approval", Approval(by="Ada", granted=True))
        await drain(app)
        print("A-1:", await good.result())

        await pass_time(app, clock, timedelta(days=14))
        for order, handle in (("B-2", bad), ("C-3", forgotten)):
            job = await handle.status()
            print(f"{order}: {job.state}, {job.failure and job.failure.message}")


if __name__ == "__main__":
    asyncio.run(main())
