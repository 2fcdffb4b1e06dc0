# ruff: noqa: INP001 - a script beside the files that start it
"""The service that the files in this folder start: replace it by your own."""

from __future__ import annotations

import offpath

app = offpath.App()


@app.task
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
