"""The engine's own passes as runs that are kept, where they found something."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from offpath.config import Settings
from offpath.jobs.worker.upkeep import Upkeep, UpkeepPass
from offpath.model.redrive import Redrive
from offpath.model.tally import SweepResult, Tally
from offpath.sweeps.catalogue import upkeep_of
from offpath.sweeps.run_log import RunLog
from offpath.sweeps.sweeper import SweepParts

EVERY: Final = 60.0
"""Seconds between two rows of one worker's passes. A bound: every worker of a fleet makes them."""


class RecordedPass:
    """A pass whose outcome is kept when it found something."""

    def __init__(self, name: str, one: UpkeepPass, parts: SweepParts) -> None:
        self._name, self._pass, self._parts = name, one, parts
        self._log = RunLog(name, parts.holder, parts.store, parts.clock, parts.new_id, every=EVERY)

    async def move(self, limit: int) -> Tally:
        """Move up to ``limit`` rows. What it raises, its loop tells: it is not kept."""
        clock = self._parts.clock
        began = clock.monotonic()
        tally = await self._pass.move(limit)
        result = SweepResult(name=self._name, tally=tally, seconds=clock.monotonic() - began)
        await self._log.note(result, self._parts.report)
        return tally


def upkeep_in(settings: Settings, redrive: Redrive | None, parts: SweepParts) -> Upkeep:
    """The passes that a worker makes for the fleet, with a record of those that found something."""
    return recorded(upkeep_of(lambda: parts.store, settings, redrive, parts.report), parts)


def recorded(upkeep: Upkeep, parts: SweepParts) -> Upkeep:
    """The passes of a worker, with a record of those that found something."""
    redrive = upkeep.redrive
    return replace(
        upkeep,
        rescue=RecordedPass("rescue", upkeep.rescue, parts),
        group_check=RecordedPass("group_check", upkeep.group_check, parts),
        prune=RecordedPass("prune", upkeep.prune, parts),
        redrive=None if redrive is None else RecordedPass("redrive", redrive, parts),
    )
