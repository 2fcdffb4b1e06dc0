"""The loops of webhooks: the fan-out of events, and the posting of deliveries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import structs

from offpath.errors import RelayFailed
from offpath.events.mover import Mover, MoverParts
from offpath.events.webhook.post_log import WRITE_EVERY, PostLog
from offpath.events.webhook.work import (
    FAN_OUT,
    POSTS,
    Directory,
    FanOutWork,
    PostWork,
    WebhookTools,
)
from offpath.model import checks
from offpath.model.tally import Tally, Turn, Verdict
from offpath.runtime.baggage import PLAIN, HeaderRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.events.webhook.poster import Poster

ROOM_WAIT = 0.25
"""The longest a turn waits for room at one endpoint: what is new for others waits with it."""
Make = Callable[[], Awaitable[MoverParts]]


class FanOut:
    """Makes deliveries of events, by hand with :meth:`run_once` or in a worker's loop."""

    def __init__(
        self,
        streams: Callable[[], Sequence[str]],
        make: Make,
        *,
        random: Callable[[], float],
        keep: float | None,
        headers: HeaderRules = PLAIN,
    ) -> None:
        self._streams = streams
        self._headers = headers
        self._make = make
        self._random = random
        self._keep = keep
        self._mover: Mover | None = None

    async def run_once(self, *, limit: int = 100) -> Tally:
        """Plan up to ``limit`` events. Raises ``RelayFailed`` when none could be."""
        checks.integer(limit, "limit", least=1, most=1_000_000)
        mover = await self._moving()
        if mover is None:
            return Tally(skipped="no stream goes to webhooks: app.webhooks.deliver(…)")
        return await mover.run_once(limit=limit)

    async def step(self) -> Turn:
        """One turn of a worker's loop."""
        mover = await self._moving()
        return Turn(verdict=Verdict.EMPTY) if mover is None else await mover.step()

    async def stop(self, seconds: float = 0.0) -> None:
        """Let what was begun end within ``seconds``."""
        if self._mover is not None:
            await self._mover.stop(seconds)

    async def _moving(self) -> Mover | None:
        if self._mover is None and self._streams():
            parts = await self._make()
            directory = Directory(parts.store, parts.clock)
            tools = structs.replace(_tools(self, directory, parts), headers=self._headers)
            self._mover = Mover(FanOutWork(self._streams, tools), FAN_OUT, parts)
        return self._mover

    @property
    def terms(self) -> tuple[Callable[[], float], float | None]:
        """Chance, and how long what is done is kept."""
        return self._random, self._keep


class Posting:
    """Posts deliveries, by hand with :meth:`run_once` or in a worker's loop.

    A failing receiver is its endpoint's health. This loop is clean as long as it goes on.
    """

    def __init__(
        self,
        make: Make,
        poster: Callable[[], Poster],
        *,
        random: Callable[[], float],
        keep: float | None,
    ) -> None:
        self._make = make
        self._poster = poster
        self._random = random
        self._keep = keep
        self._mover: Mover | None = None
        self._directory: Directory | None = None
        self._work: PostWork | None = None
        self._posts: PostLog | None = None

    async def run_once(self, *, limit: int = 100) -> Tally:
        """Post up to ``limit`` due deliveries, to at most five at once of each endpoint."""
        checks.integer(limit, "limit", least=1, most=1_000_000)
        mover, directory = await self._moving()
        await directory.refresh(after=0.0)
        try:
            return await mover.run_once(limit=limit)
        except RelayFailed as error:
            return error.tally
        finally:
            await self._note(after=0.0)

    async def step(self) -> Turn:
        """One turn of a worker's loop."""
        mover, directory = await self._moving()
        await directory.refresh()
        turn = await mover.step()
        if turn.again is not True and self._work is not None and self._work.full:
            # more may wait for an endpoint that could not be asked for: nothing else tells of it
            await mover.wait_for_room(ROOM_WAIT)
            turn = structs.replace(turn, again=True)
        await self._note()
        turn = structs.replace(turn, again=self._soon(turn.again))
        good = Verdict.EMPTY if turn.verdict is Verdict.EMPTY else Verdict.CLEAN
        return structs.replace(turn, verdict=good, cause=None)

    async def stop(self, seconds: float = 0.0) -> None:
        """Let the posts that were begun end within ``seconds``."""
        if self._mover is not None:
            await self._mover.stop(seconds)
            await self._note(after=0.0)

    async def _note(self, *, after: float = WRITE_EVERY) -> None:
        """Write how the posts went that have ended."""
        if self._posts is not None:
            await self._posts.write(after=after)

    def _soon(self, again: bool | float | None) -> bool | float | None:
        """The time of the next turn: not long after the last post, which is still to be written."""
        if again is True or self._posts is None or not self._posts.waits:
            return again
        return min(again, WRITE_EVERY) if again else WRITE_EVERY

    async def _moving(self) -> tuple[Mover, Directory]:
        if self._mover is None or self._directory is None:
            parts = await self._make()
            self._directory = Directory(parts.store, parts.clock)
            self._posts = PostLog(parts.store, parts.clock, parts.report)
            tools = _tools(self, self._directory, parts)
            self._work = PostWork(self._poster(), tools, posts=self._posts)
            self._mover = Mover(self._work, POSTS, parts)
        return self._mover, self._directory

    @property
    def terms(self) -> tuple[Callable[[], float], float | None]:
        """Chance, and how long what is done is kept."""
        return self._random, self._keep


def _tools(drives: FanOut | Posting, directory: Directory, parts: MoverParts) -> WebhookTools:
    random, keep = drives.terms
    return WebhookTools(directory=directory, clock=parts.clock, random=random, keep=keep)
