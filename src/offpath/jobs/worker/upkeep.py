"""Upkeep: the passes that each worker makes for the fleet, and how its loops judge them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from offpath.model.tally import FOUND_DEAD, Tally, Turn, Verdict

# Rescued rows stay locked until the commit; more of them are taken by the next pass at once.
RESCUE_BATCH = 500
# Small enough to hold up no settlement, and repeated at once while there is more.
PRUNE_BATCH = 1_000
CHECK_EVERY = 1.0
"""Seconds between two group checks that nothing brings about: three probes while all is well."""
CHECK_BATCH = 500
"""Most jobs of each kind in one group check."""


class UpkeepPass(Protocol):
    """One bounded pass over what is due by the store's clock; see :mod:`offpath.sweeps`."""

    async def move(self, limit: int) -> Tally:
        """Move up to ``limit`` rows. Raises what the store raises."""
        ...


class Upkeep(Struct, frozen=True, kw_only=True):
    """The engine's sweeps, as one worker drives them: each by a loop of its own."""

    rescue: UpkeepPass
    """Gives jobs of dead workers to the living."""
    group_check: UpkeepPass
    """Ends what must end, and undoes what failed jobs had done."""
    prune: UpkeepPass
    """Removes what was kept long enough."""
    redrive: UpkeepPass | None = None
    """Puts dead jobs back while the worker has nothing to do; None without a policy."""


NOTHING = Turn(verdict=Verdict.EMPTY)


def step_of(one: UpkeepPass, limit: int, unsure: Callable[[], bool] | None = None) -> Step:
    """A pass as the step of a loop. It does nothing while the worker is ``unsure`` of the time."""

    async def step() -> Turn:
        return NOTHING if unsure is not None and unsure() else turn_of(await one.move(limit))

    return step


def rescue_of(one: UpkeepPass, unsure: Callable[[], bool], *, freed: Callable[[], None]) -> Step:
    """The rescue as the step of a loop; ``freed`` hears that workers were found dead."""

    async def step() -> Turn:
        if unsure():
            return NOTHING
        tally = await one.move(RESCUE_BATCH)
        if tally.facts.get(FOUND_DEAD):
            freed()
        return turn_of(tally)

    return step


def turn_of(tally: Tally) -> Turn:
    """A pass as a turn. Rows that failed make it degraded, never failed: the pass went on."""
    failures = tally.failures
    return Turn(
        verdict=Verdict.DEGRADED if failures else tally.verdict,
        counts=tally.counts,
        again=True if tally.more else None,
        cause=f"{failures} jobs could not be undone" if failures else None,
    )


Step = Callable[[], Awaitable[Turn]]
