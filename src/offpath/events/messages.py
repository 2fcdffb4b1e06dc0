"""Looking at messages and putting them right: what waits, what is dead, what is sent again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

from msgspec.structs import replace

from offpath.errors import InvalidArgument, MessageNotFound
from offpath.model import checks
from offpath.model.job import DeadReason
from offpath.model.message import Box, MessageFilter, MessageState
from offpath.runtime.former import Former, former_names

if TYPE_CHECKING:
    from offpath.model.message import MessagePage, MessageRecord
    from offpath.store.events import EventStore

PAGE = 500


class MessageWhere(TypedDict, total=False):
    """The choice of messages: every given keyword must match; a list matches any of its values."""

    box: Box | str
    """``out`` or ``in``."""
    streams: Collection[str]
    """Streams of the outbox, or sources of the inbox."""
    topics: Collection[str]
    states: Collection[MessageState | str]
    keys: Collection[str]
    reasons: Collection[DeadReason | str]
    created_after: datetime
    """At that time or later."""
    created_before: datetime


class MessagesView:
    """``app.messages``: the messages of outbox and inbox."""

    def __init__(self, store: Callable[[], Awaitable[EventStore]]) -> None:
        self._store = store

    async def get(self, message_id: str, /) -> MessageRecord:
        """One message. Raises ``MessageNotFound``."""
        page = await (await self._store()).find_messages(MessageFilter(ids=(message_id,)), limit=1)
        if not page.items:
            raise MessageNotFound(f"there is no message {message_id} (any more)")
        return page.items[0]

    async def find(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        **where: Unpack[MessageWhere],
    ) -> MessagePage:
        """One page, by the order of writing. ``after`` is the ``next`` of the page before."""
        checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)
        store = await self._store()
        return await store.find_messages(
            message_filter(where), limit=limit, after=after, newest=newest
        )

    async def redrive(
        self,
        *ids: str,
        limit: int | None = None,
        everything: bool = False,
        **where: Unpack[MessageWhere],
    ) -> list[str]:
        """Put dead messages back as fresh, oldest first: by id, by filter, or ``everything``.

        Beside ids only ``box`` may be given: messages of the other one are left. Those that a
        handler rejected only by id, or when ``reasons`` names ``rejected``. Returns the ids of
        those that were dead and are pending now.
        """
        _require_choice(ids, where, everything=everything)
        chosen = replace(message_filter(where), ids=ids, states=(MessageState.DEAD,))
        if not ids and not chosen.reasons:
            chosen = replace(chosen, not_reasons=(DeadReason.REJECTED,))
        return await self._each(chosen, limit, (await self._store()).revive_messages)

    async def replay(
        self, *, since: datetime, limit: int | None = None, **where: Unpack[MessageWhere]
    ) -> list[str]:
        """Send again what was published at ``since`` or later and was delivered; oldest first.

        Receivers get the same ids again. What was delivered longer ago than ``keep_delivered`` is
        gone. Returns the ids.
        """
        chosen = replace(
            message_filter(where),
            box=Box.OUT,
            states=(MessageState.DONE,),
            created_after=checks.aware(since, "since"),
        )
        return await self._each(chosen, limit, (await self._store()).revive_messages)

    async def discard(
        self,
        *ids: str,
        limit: int | None = None,
        everything: bool = False,
        **where: Unpack[MessageWhere],
    ) -> list[str]:
        """Delete dead messages for good; chosen as for :meth:`redrive`, rejected ones included."""
        _require_choice(ids, where, everything=everything)
        chosen = replace(message_filter(where), ids=ids, states=(MessageState.DEAD,))
        return await self._each(chosen, limit, (await self._store()).delete_messages)

    if not TYPE_CHECKING:
        __getattr__ = former_names("app.messages", {"revive": Former("redrive", "redrive")})

    async def _each(
        self,
        chosen: MessageFilter,
        limit: int | None,
        change: Callable[[Sequence[str]], Awaitable[list[str]]],
    ) -> list[str]:
        left = (
            None if limit is None else checks.integer(limit, "limit", least=1, most=1_000_000_000)
        )
        store = await self._store()
        changed: list[str] = []
        after: str | None = None
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await store.find_messages(chosen, limit=size, after=after, newest=False)
            if page.items:
                changed += await change([record.id for record in page.items])
            after = page.next
            if after is None:
                break
            left = left if left is None else left - len(page.items)
        return changed


def message_filter(where: MessageWhere) -> MessageFilter:
    """The filter of a caller's keywords, checked. Raises ``InvalidArgument``."""
    unknown = [name for name in where if name not in MessageWhere.__annotations__]
    if unknown:
        known = ", ".join(MessageWhere.__annotations__)
        raise InvalidArgument(f"messages have no filter {unknown[0]!r}; there are {known}")
    box = where.get("box")
    try:
        return MessageFilter(
            box=None if box is None else Box(box),
            streams=_texts(where.get("streams"), "streams"),
            topics=_texts(where.get("topics"), "topics"),
            states=tuple(MessageState(one) for one in _texts(where.get("states"), "states")),
            keys=_texts(where.get("keys"), "keys"),
            reasons=tuple(DeadReason(one) for one in _texts(where.get("reasons"), "reasons")),
            created_after=_time(where, "created_after"),
            created_before=_time(where, "created_before"),
        )
    except ValueError as error:
        raise InvalidArgument(str(error)) from error


def _texts(given: Collection[str] | None, what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidArgument(
            f"{what} must be a list of str, not one str: write {what}=[{given!r}]"
        )
    return tuple(given or ())


def _time(where: MessageWhere, name: str) -> datetime | None:
    given = where.get(name)
    return None if given is None else checks.aware(given, name)


def _require_choice(ids: tuple[str, ...], where: MessageWhere, *, everything: bool) -> None:
    if not ids and not where and not everything:
        raise InvalidArgument("say which messages: ids, a filter, or everything=True")
    if ids and where.keys() - {"box"}:
        raise InvalidArgument("give ids or a filter, not both")
