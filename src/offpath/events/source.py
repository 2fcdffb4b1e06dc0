"""Reading an event table of the user's own instead of the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from offpath.model import checks
from offpath.model.route import LogEvent, LogPage

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

Keyset = Callable[[int, int], Awaitable[Sequence[LogEvent]]]
"""``read(after, limit)``: events above a position, by position, at most so many."""
_MOST_ATTEMPTS: Final = 10_000
_PAGE: Final = 1_000


class EventSource:
    """A keyset query over somebody else's table, with a safety lag.

    The guarantee is weaker than the log's: an event whose transaction commits more than
    ``safety_lag`` seconds after its time ``at`` can be passed by, since nobody can tell here which
    transactions are still open.
    """

    def __init__(self, read: Keyset, *, clock: Clock, safety_lag: float | timedelta = 5.0) -> None:
        self._read = read
        self._clock = clock
        self._lag = checks.seconds(safety_lag, "safety_lag")

    async def page(self, store: Store, router: str, *, after: int, limit: int) -> LogPage:
        """Events that are old enough, up to the first that is not."""
        events = sorted(await self._read(after, limit), key=lambda event: event.position)
        now = self._clock.now()
        settled = []
        for event in events:
            if (now - event.at).total_seconds() < self._lag:
                break
            settled.append(event)
        decided = await _decided(store, router, after, settled)
        marked = tuple(structs.replace(one, decided=one.id in decided) for one in settled)
        return LogPage(events=marked, horizon=marked[-1].position if marked else after)


async def _decided(
    store: Store, router: str, after: int, events: Sequence[LogEvent]
) -> frozenset[str]:
    """Which of these have an attempt: some have after a cursor was put back."""
    found: set[str] = set()
    place = (after, _MOST_ATTEMPTS)
    while events:
        attempts = await store.attempts(router, after=place, limit=_PAGE)
        found.update(one.event for one in attempts)
        if len(attempts) < _PAGE or attempts[-1].position > events[-1].position:
            break
        place = (attempts[-1].position, attempts[-1].number)
    return frozenset(found)
