"""The service before its last release: it does not know the task ``held`` yet."""

from __future__ import annotations

import offpath
from tests.integration.journal import note

app = offpath.App()


@app.task
async def child(ctx: offpath.Context) -> None:
    """The one task that both releases know."""
    note("start", ctx.id, ctx.attempt)
