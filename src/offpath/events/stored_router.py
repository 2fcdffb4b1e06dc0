"""Operating a router by its name: what the store has of it, whichever service declared it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.errors import InvalidArgument, LetterNotFound, RouterNotFound
from offpath.events.verification import Check, checks_of
from offpath.model import checks
from offpath.model.route import AttemptStatus, RouterFacts, RouterRecord

if TYPE_CHECKING:
    from offpath.model.route import Attempt, Letter
    from offpath.store.protocol import Store

MOST_LAG = 300.0
"""Seconds by which a router may be behind before ``verify`` says so."""


class RouterStatus(Struct, frozen=True, kw_only=True):
    """The state of a router."""

    record: RouterRecord
    """Gates, routes and cursors."""
    facts: RouterFacts
    """The facts behind it, counted."""
    waiting_for: tuple[str, ...]
    """Open writers of the log that hold later events back."""


class StoredRouter:
    """A router as the store has it. Made by ``app.routers.stored(name)``."""

    def __init__(self, opened: Callable[[], Awaitable[Store]], name: str) -> None:
        self._opened = opened
        self.name = checks.name(name, "router")
        """Its name."""

    def __repr__(self) -> str:
        """Show the name."""
        return f"<StoredRouter {self.name}>"

    async def record(self) -> RouterRecord:
        """Gates, routes and cursors. Raises :class:`RouterNotFound` naming those there are."""
        records = await (await self._opened()).routers()
        for record in records:
            if record.name == self.name:
                return record
        known = ", ".join(record.name for record in records) or "none"
        raise RouterNotFound(
            f"the store has no router {self.name!r}; it has {known}. The first run of the app that "
            "declares it puts it there"
        )

    async def status(self) -> RouterStatus:
        """The state of the router: reads only. Raises :class:`RouterNotFound`."""
        record, store = await self.record(), await self._opened()
        waiting: set[str] = set()
        for cursor in record.cursors:
            page = await store.read_log(self.name, cursor.partition, after=cursor.position, limit=1)
            waiting.update(page.waiting_for)
        facts = await store.router_facts(self.name)
        return RouterStatus(record=record, facts=facts, waiting_for=tuple(sorted(waiting)))

    async def verify(
        self,
        *,
        deliverable: AbstractSet[str] | None = None,
        own_log: bool = True,
        most_lag: float = MOST_LAG,
    ) -> list[Check]:
        """The numbered checks: reads only. ``deliverable``: the routes that have a deliverer.

        Without ``deliverable`` the check of deliverers does not apply: only the app knows them.
        Raises :class:`RouterNotFound`.
        """
        record, store = await self.record(), await self._opened()
        facts = await store.router_facts(self.name)
        return checks_of(record, facts, deliverable=deliverable, most_lag=most_lag, own_log=own_log)

    async def open_gate(self, *, opened: bool = True) -> None:
        """Open (or close) its own gate. Raises :class:`RouterNotFound`."""
        await self.record()
        await (await self._opened()).set_gate(self.name, opened=opened)

    async def switch(
        self, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> None:
        """Switch a route. Raises :class:`RouterNotFound`, ``InvalidArgument`` naming its routes."""
        record, store = await self.record(), await self._opened()
        if not await store.set_route(self.name, route, enabled=enabled, dry_run=dry_run):
            known = ", ".join(sorted(one.name for one in record.routes)) or "none"
            raise InvalidArgument(f"router {self.name!r} has no route {route!r}; it has {known}")

    async def attempts(
        self,
        *,
        event: str | None = None,
        status: AttemptStatus | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
        newest: bool = False,
    ) -> list[Attempt]:
        """Attempts by (position, number), above ``after``; or the ``newest`` first, below it.

        Raises :class:`RouterNotFound`.
        """
        await self.record()
        return await (await self._opened()).attempts(
            self.name, event=event, status=status, limit=limit, after=after, newest=newest
        )

    async def letters(
        self,
        ids: Sequence[str] = (),
        *,
        unresolved: bool = True,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Letter]:
        """Dead letters by the position of their event. Raises :class:`RouterNotFound`."""
        await self.record()
        store = await self._opened()
        return await store.letters(
            self.name, ids=ids, unresolved=unresolved, limit=limit, after=after
        )

    async def resolve(self, letter: str, resolution: str) -> None:
        """End a dead letter without a redrive, saying how.

        Raises :class:`LetterNotFound` when it is none of this router's, or resolved before.
        """
        checks.text(resolution, "resolution", longest=checks.MAX_NAME)
        open_ones = await self.letters([letter], limit=1)
        store = await self._opened()
        if not open_ones or not await store.resolve_letter(letter, resolution):
            raise LetterNotFound(f"router {self.name!r} has no unresolved dead letter {letter}")
