"""Names of tasks that only other services know: what the store tells of them."""

from __future__ import annotations

import difflib
from typing import Final

from offpath.app import App
from offpath.model.job import JobFilter

_SHOWN: Final = 5
"""Names that are told where none is like the one that was given."""


async def unknown_task(app: App, name: str) -> str | None:
    """Say that a task may be a mistyped one: no live worker runs it, and no job of it is stored.

    None for one that is known.
    """
    store = app.store()
    workers = [one.info for one in await store.workers() if one.gone_at is None]
    if any(one.knows(name) for one in workers):
        return None
    if (await store.find(JobFilter(tasks=(name,)), limit=1)).items:
        return None
    if not workers:
        return (
            f"is {name!r} spelled right? no job of such a task is stored, and no worker runs: the "
            "job waits until one knows it"
        )
    tasks = {task for one in workers for task in one.tasks}
    known = sorted(task for task in tasks if not task.startswith("offpath."))
    return f"no job of a task {name!r} is stored, and no worker knows it{_likely(name, known)}"


def _likely(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    more = ", …" if len(known) > _SHOWN else ""
    return f"; known: {', '.join(known[:_SHOWN])}{more}" if known else ""
