"""Dead jobs whose gates could not fire: those for which that is still so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offpath.model.job import DeadReason, JobFilter, JobRecord, JobState
from offpath.store.capabilities import Profile
from offpath.store.protocol import MOST_ON_A_PAGE, Store

_MOST_STATES: Final = 1000
"""Jobs whose states are asked for at once."""


async def still_behind(store: Store, ids: Sequence[str]) -> set[str]:
    """The dead jobs among these whose gate could not fire, and still lacks what it waits for.

    Put back, they would run beside the jobs that they were to wait for, on a part of the results.
    A job that has succeeded stays so, hence the answer holds for those that are not named.
    """
    if not store.capabilities.offers(Profile.WORKFLOWS):
        return set()
    behind: set[str] = set()
    for start in range(0, len(ids), MOST_ON_A_PAGE):
        where = JobFilter(
            ids=tuple(ids[start : start + MOST_ON_A_PAGE]),
            states=(JobState.DEAD,),
            reasons=(DeadReason.UNSATISFIABLE.value,),
        )
        page = await store.find(where, limit=MOST_ON_A_PAGE)
        behind |= {one.id for one in page.items if await _lacks(store, one)}
    return behind


async def _lacks(store: Store, job: JobRecord) -> bool:
    gates = await store.gates([job.gate]) if job.gate else []
    if not gates:
        return False  # its gate is gone with all that it knew
    (gate,) = gates
    failed = 0
    for start in range(0, len(gate.on), _MOST_STATES):
        some = gate.on[start : start + _MOST_STATES]
        states = await store.states(some)
        # one that is gone had ended: what failed is kept for longer than what has succeeded
        failed += sum(
            states.get(each, JobState.SUCCEEDED) is not JobState.SUCCEEDED for each in some
        )
    return len(gate.on) - failed < gate.need
