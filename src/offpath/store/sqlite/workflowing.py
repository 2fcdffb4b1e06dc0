"""The part of the SQLite backend that holds workflows."""

from __future__ import annotations

from typing import TypeVar

from offpath.store.changes import ChangedJob
from offpath.store.hints import Hint
from offpath.store.sqlite import waiting
from offpath.store.sqlite.part import Part

T = TypeVar("T")


class Workflowing(Part):
    """Groups, gates, steps and waits."""

    # -- gates -----------------------------------------------------------------------------

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over."""
        changed = await self._write(
            lambda session: waiting.expire_blocked(session, self._now(), limit, keep),
            peek=lambda session: waiting.nothing_is_up(session, self._now()),
        )
        return self._told_of(changed)

    def _told_of(self, changed: list[ChangedJob]) -> list[ChangedJob]:
        """Tell of what a sweep or an operator's call changed."""
        if any(each.was is each.state for each in changed):
            self._hints.emit(Hint.CANCEL)
        moved = [each for each in changed if each.was is not each.state]
        self._tell(
            waiting=any(not each.state.terminal for each in moved),
            ended=any(each.state.terminal for each in moved),
        )
        return changed
