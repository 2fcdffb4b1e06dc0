"""Workers of jobs with limits over the fleet: ``limited_service:app``.

Each handler writes when it goes in and comes out, so that a test can count who was in at once.
"""

from __future__ import annotations

import asyncio

import offpath
from offpath import Limit, Rate
from tests.integration.journal import note

MOST = {"wide": 5, "narrow": 2, "single": 1}
"""``max_running`` of each key."""
RATE = Rate(20, per=1.0)
TOGETHER, OF_TENANT = 3, 2
"""Room of the limit that all tenants share, and of the one that each has beside it."""

app = offpath.App()


@app.task(limit=lambda key, _seconds: Limit(key=key, max_running=MOST[key]))
async def limited(ctx: offpath.Context, key: str, seconds: float) -> None:
    """Be in for some time."""
    note(f"in-{key}", ctx.id, ctx.attempt)
    await asyncio.sleep(seconds)
    note(f"out-{key}", ctx.id, ctx.attempt)


def _both(tenant: str, cost: int, _seconds: float) -> list[Limit]:
    return [
        Limit("shared", max_running=TOGETHER, cost=cost),
        Limit(f"tenant:{tenant}", max_running=OF_TENANT),
    ]


@app.task(limit=_both)
async def joined(ctx: offpath.Context, tenant: str, cost: int, seconds: float) -> None:
    """Be in for some time, under two limits."""
    note(f"in-{tenant}-{cost}", ctx.id, ctx.attempt)
    await asyncio.sleep(seconds)
    note(f"out-{tenant}-{cost}", ctx.id, ctx.attempt)


@app.task(limit=Limit(key="rated", rate=RATE))
async def rated(ctx: offpath.Context) -> None:
    """Tell when it starts."""
    note("start", ctx.id, ctx.attempt)


@app.task(limit=Limit(key="head", max_running=1), priority=10)
async def head(ctx: offpath.Context) -> None:
    """Hold the key for good."""
    note("head", ctx.id, ctx.attempt)
    await asyncio.sleep(600)


@app.task
async def free(ctx: offpath.Context) -> None:
    """Have no limit."""
    note("free", ctx.id, ctx.attempt)
