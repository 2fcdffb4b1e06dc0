"""A process that trims a ledger, and may be killed on the way: ``python -m
tests.integration.ledger_trimmer URL FILE MOMENT``.

``begin``: before the last statement of the transaction that begins the trim. ``row``: when the trim
is written and nothing is removed. ``step``: in the middle of the second step's transaction.
``none``: it goes through.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

from offpath.economy.ledger import removal
from offpath.economy.testing import TestSigner
from offpath.model.ledger.faults import Archived
from offpath.store.backends import make_store
from offpath.store.protocol import Store
from tests.integration.crashing import Bomb


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _armed(store: Store, moment: str) -> None:
    """Let the process be killed at this moment."""
    one, begin, step, steps = cast("Any", store), store.begin_trim, store.trim_postings, 0

    async def begun(made: Any, *, keeps: int) -> bool:
        if moment == "begin":
            one._before_statement = Bomb(2)
        done = await begin(made, keeps=keeps)
        _killed()
        return done

    async def stepped(*, limit: int) -> int:
        nonlocal steps
        steps += 1
        if steps == 2:
            one._before_statement = Bomb(4)
        return await step(limit=limit)

    if moment in {"begin", "row"}:
        one.begin_trim = begun
    elif moment == "step":
        one.trim_postings = stepped


async def run(url: str, file: str, moment: str) -> None:
    """Trim, by steps of three postings."""
    removal.STEP = 3  # type: ignore[misc]  # so that there are several
    store = make_store(url)
    await store.open()
    _armed(store, moment)
    try:
        made = await removal.trim(
            store, Path(file), TestSigner(), now=lambda: round(time.time() * 1000), keep=0
        )
        print(made.done)
    except Archived:
        print("archived")
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
