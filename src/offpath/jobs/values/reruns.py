"""Jobs of a handler that runs again, kept apart from those that its earlier runs have sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from offpath.runtime.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offpath.jobs.values.gates import Gate
    from offpath.model.job import JobState
    from offpath.model.unsent import Unsent

CHUNK = 1_000
"""Ids asked for in one call to the store."""


class States(Protocol):
    """The store, as far as this needs it."""

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of those that are there."""
        ...


async def set_apart(store: States, jobs: Iterable[Unsent], gates: Iterable[Gate[Any]]) -> None:
    """Give new ids to jobs whose ids an earlier run of their handler has sent; fix all the others.

    What a run joins to its end is stored by the last run alone. So a job of that id that is there
    already was sent by itself, and is another one: to take this one for its repeat would lose it.
    """
    doubtful = {job.id: job for job in jobs if job.doubtful}
    ids, others = tuple(doubtful), dict[str, str]()
    for start in range(0, len(ids), CHUNK):
        known = await store.states(ids[start : start + CHUNK])
        others |= {one: new_id() for one in known}
    for one, job in doubtful.items():
        job.sent_as(others.get(one, one))
    for gate in gates:
        gate.follow(others)
