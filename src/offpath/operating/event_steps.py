"""Steps on messages, endpoints, routers and their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.events.messages import message_filter
from offpath.model import checks
from offpath.model.job import DeadReason
from offpath.model.message import MessageFilter, MessageRecord, MessageState
from offpath.operating.steps import CHUNK, DONE, ActionWork, Step, Stepped, rows
from offpath.operating.targets import LettersTarget, MessagesTarget

MessageChange = Callable[[App, Sequence[str]], Awaitable[list[str]]]
DEAD: Final = frozenset({MessageState.DEAD})
DELIVERED: Final = frozenset({MessageState.DONE})


class ReplayOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a replay to an endpoint."""

    since: datetime
    """The time since which what was written is sent again."""


class SwitchOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a route's switch; None leaves it as it is."""

    enabled: bool | None = None
    dry_run: bool | None = None


class ResolveOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a resolution."""

    resolution: str


def messages_for(target: MessagesTarget, allowed: frozenset[MessageState]) -> MessageFilter:
    """The filter of a target, up to its moment of asking. Raises ``InvalidArgument``."""
    where = target.where
    if where is None:
        return MessageFilter(ids=target.ids, states=tuple(allowed))
    given: dict[str, Any] = {
        "streams": where.stream,
        "topics": where.topic,
        "keys": where.key,
        "reasons": where.reason,
    }
    if where.box is not None:
        given["box"] = where.box
    found = message_filter(given)  # type: ignore[arg-type]
    # A handler said no to rejected ones: they are put back only by id, or when that is asked for.
    rejected = (DeadReason.REJECTED,) if not where.reason and allowed == DEAD else ()
    return replace(found, states=tuple(allowed), created_before=target.before, not_reasons=rejected)


def message_step(allowed: frozenset[MessageState], change: MessageChange) -> Step:
    """The step that changes messages in these states."""

    async def step(app: App, work: ActionWork) -> Stepped:
        if work.target.ids:
            return await _by_id(app, work, allowed, change)
        where, after = messages_for(work.target, allowed), work.record.cursor
        # It looks at a bounded number of rows, whatever matches: then the next step goes on there.
        page = await app.store().look_at_messages(where, limit=CHUNK, after=after, newest=False)
        able = [one.id for one in page.items]
        done = await change(app, able) if able else []
        left = Counter({"refused": len(able) - len(done)} if len(able) > len(done) else {})
        more = page.next is not None
        return rows(changed=len(done), left=left, cursor=page.next or after, more=more)

    return step


async def _by_id(
    app: App, work: ActionWork, allowed: frozenset[MessageState], change: MessageChange
) -> Stepped:
    """All of the named ones in one step: there are at most a thousand."""
    ids = tuple(dict.fromkeys(work.target.ids))
    found = await app.store().find_messages(MessageFilter(ids=ids), limit=len(ids))
    able = [one.id for one in found.items if one.state in allowed]
    left = _unable(found.items, allowed)
    if unknown := len(ids) - len(found.items):
        left["unknown"] = unknown
    done = await change(app, able) if able else []
    if len(done) < len(able):
        left["refused"] = len(able) - len(done)
    return rows(changed=len(done), left=left, cursor=None, more=False)


def _unable(found: Sequence[MessageRecord], allowed: frozenset[MessageState]) -> Counter[str]:
    return Counter(f"is_{one.state.value}" for one in found if one.state not in allowed)


async def revive(app: App, ids: Sequence[str]) -> list[str]:
    """Make them pending again."""
    return await app.store().revive_messages(ids)


async def remove(app: App, ids: Sequence[str]) -> list[str]:
    """Remove them for good."""
    return await app.store().delete_messages(ids)


# -- endpoints and routers -------------------------------------------------------------------------


async def pause_endpoint(app: App, work: ActionWork) -> Stepped:
    """Post nothing to it until it is resumed."""
    await app.webhooks.pause(work.target.name, work.record.note or "paused by an operator")
    return DONE


async def resume_endpoint(app: App, work: ActionWork) -> Stepped:
    """Post to it again."""
    await app.webhooks.resume(work.target.name)
    return DONE


async def replay_endpoint(app: App, work: ActionWork) -> Stepped:
    """Post again what it was sent since a time."""
    since = checks.aware(work.options.since, "since")
    count = await app.webhooks.replay(work.target.name, since=since, until=work.record.at)
    return Stepped(changed=count)


async def open_router(app: App, work: ActionWork) -> Stepped:
    """Open its own gate."""
    await app.routers.stored(work.target.name).open_gate()
    return DONE


async def close_router(app: App, work: ActionWork) -> Stepped:
    """Close its own gate."""
    await app.routers.stored(work.target.name).open_gate(opened=False)
    return DONE


async def switch_route(app: App, work: ActionWork) -> Stepped:
    """Switch a route on or off, or its dry run."""
    router = app.routers.stored(work.target.router)
    options: SwitchOptions = work.options
    await router.switch(work.target.route, enabled=options.enabled, dry_run=options.dry_run)
    return DONE


async def resolve_letters(app: App, work: ActionWork) -> Stepped:
    """End dead letters without a redrive, saying how."""
    target: LettersTarget = work.target
    text = checks.text(work.options.resolution, "resolution", longest=checks.MAX_NAME)
    router, ids = app.routers.stored(target.router), tuple(dict.fromkeys(target.ids))
    known = [one.id for one in await router.letters(ids, limit=len(ids))] if ids else []
    done = [each for each in known if await app.store().resolve_letter(each, text)]
    left = len(ids) - len(done)
    return Stepped(changed=len(done), left={"unknown_or_resolved": left} if left else {})
