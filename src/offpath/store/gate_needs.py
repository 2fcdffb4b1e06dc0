"""Ended jobs that never came past their gate: those that a redrive has left alone because of it."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.gate import GateState
from offpath.model.job import JobFilter, JobState
from offpath.store.capabilities import Profile
from offpath.store.protocol import MOST_ON_A_PAGE, Store


async def still_behind(store: Store, ids: Sequence[str]) -> set[str]:
    """The dead and cancelled jobs among these whose gate still cannot fire.

    Put back, they would run beside the jobs that they were to wait for, on a part of the results:
    :meth:`Store.redrive` leaves them alone.
    """
    if not ids or not store.capabilities.offers(Profile.WORKFLOWS):
        return set()
    behind: set[str] = set()
    # A page at a time: ``find`` answers no more at once.
    for start in range(0, len(ids), MOST_ON_A_PAGE):
        where = JobFilter(
            ids=tuple(ids[start : start + MOST_ON_A_PAGE]),
            states=(JobState.DEAD, JobState.CANCELLED),
        )
        page = await store.find(where, limit=MOST_ON_A_PAGE)
        waits = {one.id: one.gate for one in page.items if one.gate}
        gates = await store.gates(sorted(set(waits.values())))
        shut = {gate.id for gate in gates if gate.state is GateState.UNSATISFIABLE}
        behind |= {job for job, gate in waits.items() if gate in shut}
    return behind
