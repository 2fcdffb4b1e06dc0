"""Ended jobs that never came past their gate: those for which that is still so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offpath.model.gate import Counting, GateState
from offpath.model.job import TERMINAL, DeadReason, JobFilter, JobRecord, JobState
from offpath.store.capabilities import Profile
from offpath.store.protocol import MOST_ON_A_PAGE, Store

_MOST_STATES: Final = 1000
"""Jobs whose states are asked for at once: a gate may watch ten thousand."""
_SUCCEEDED: Final = frozenset({JobState.SUCCEEDED})


async def still_behind(store: Store, ids: Sequence[str]) -> set[str]:
    """The dead and cancelled jobs among these that never came past their gate, and could not yet.

    Put back, they would run beside the jobs that they were to wait for, on a part of the results.
    A job that has succeeded stays so, hence the answer holds for those that are not named. A gate
    whose time was over holds no job back: it has waited for as long as it was to.
    """
    if not store.capabilities.offers(Profile.WORKFLOWS):
        return set()
    behind: set[str] = set()
    for start in range(0, len(ids), MOST_ON_A_PAGE):
        where = JobFilter(
            ids=tuple(ids[start : start + MOST_ON_A_PAGE]),
            states=(JobState.DEAD, JobState.CANCELLED),
            reasons=(DeadReason.UNSATISFIABLE.value, JobState.CANCELLED.value),
        )
        page = await store.find(where, limit=MOST_ON_A_PAGE)
        behind |= {one.id for one in page.items if await _lacks(store, one)}
    return behind


async def _lacks(store: Store, job: JobRecord) -> bool:
    gates = await store.gates([job.gate]) if job.gate else []
    if not gates or gates[0].state not in {GateState.OPEN, GateState.UNSATISFIABLE}:
        return False  # or its gate is gone, with all that it knew
    (gate,) = gates
    enough = _SUCCEEDED if gate.of is Counting.SUCCEEDED else TERMINAL
    met = 0
    for start in range(0, len(gate.on), _MOST_STATES):
        some = gate.on[start : start + _MOST_STATES]
        states = await store.states(some)
        # one that is gone had ended: what failed is kept for longer than what has succeeded
        met += sum(states.get(each, JobState.SUCCEEDED) in enough for each in some)
    return met < gate.need
