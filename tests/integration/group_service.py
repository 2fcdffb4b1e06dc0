"""Workers of groups whose members add to one value: ``group_service:app``."""

from __future__ import annotations

import operator

import offpath
from offpath import Context, Plan

app = offpath.App()


@app.task
async def one(ctx: Context) -> Plan[int, int]:
    """Add one to the group's value."""
    return ctx.result(1, append=operator.add)


@app.task
async def winner(ctx: Context, number: int) -> Plan[int, int]:
    """Try to lock the group's value."""
    return ctx.result(number, final=True)


@app.task
async def adding(ctx: Context, children: int) -> Plan[None, int]:
    """Have so many children, each of which adds one."""
    return ctx.queue(*(one.job() for _ in range(children)))


@app.task
async def racing(ctx: Context, children: int) -> Plan[None, int]:
    """Have so many children, of which one locks the value."""
    return ctx.queue(*(winner.job(number) for number in range(children)))
