"""The drive of a mover: by hand, pass by pass, or in a worker's loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from offpath.events.mover import Mover
from offpath.model import checks
from offpath.model.tally import Tally, Turn

if TYPE_CHECKING:
    from offpath.events.mover import MoverParts, MoverTerms, Work

    Find = Callable[[], tuple[Work, MoverTerms] | None]


class Driven:
    """Makes the mover of some work when it is first needed, and lets it go with :meth:`stop`.

    ``find`` is asked at each pass until it has work: a program may register it later.
    """

    def __init__(self, find: Find, make: Callable[[], Awaitable[MoverParts]]) -> None:
        self._find = find
        self._make = make
        self._mover: Mover | None = None

    async def step(self) -> Turn:
        """One turn of a worker's loop."""
        mover = await self._moving()
        return Turn() if mover is None else await mover.step()

    async def stop(self, seconds: float = 0.0) -> None:
        """Let what was begun end within ``seconds``, and close what is open."""
        if self._mover is not None:
            await self._mover.stop(seconds)

    async def _pass(self, limit: int, skipped: str) -> Tally:
        """One pass, or an empty tally that says why there is none."""
        checks.integer(limit, "limit", least=1, most=1_000_000)
        mover = await self._moving()
        return Tally(skipped=skipped) if mover is None else await mover.run_once(limit=limit)

    async def _moving(self) -> Mover | None:
        if self._mover is None and (found := self._find()) is not None:
            self._mover = Mover(*found, await self._make())
        return self._mover
