"""Documents of routers: their gates, routes and cursors, and their dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.events.verification import Check
from offpath.model.action import ActionRecord, ActionState
from offpath.model.lease import worker_of
from offpath.model.redact import redact_text
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Letter,
    PartitionLag,
    Route,
    RouteCount,
    RouterLag,
    RouterRecord,
    RouterStanding,
)
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage, after_full
from offpath.operating.redaction import PLAIN, Redaction


class CursorDocument(Struct, frozen=True, kw_only=True):
    """A partition's place in the log."""

    partition: int
    position: int
    passed: int
    ran_at: datetime | None


class CursorShown(CursorDocument, frozen=True, kw_only=True):
    """A partition's place in the log, who has it, and what it has not passed yet."""

    held: bool
    """True if somebody has it now."""
    worker: str | None
    """The worker that has it; None: nobody has it, or a process without one."""
    waiting: int | None
    """Its events among the next thousand of the domain; None of a table of the user's own."""
    more: bool
    """True if there are further events of the domain than were looked at."""
    oldest_at: datetime | None
    """The time when the oldest of them was written."""


class RouterVerified(Struct, frozen=True, kw_only=True):
    """The last checks of a router that somebody asked for."""

    action: str
    at: datetime
    """The time when they were made, or asked for where they are still to be made."""
    state: ActionState
    holds: int
    fails: int


class RouterDocument(Struct, frozen=True, kw_only=True):
    """A router: its gates, its routes, its cursors, and since when its oldest event waits."""

    name: str
    domain: str
    partitions: int
    state: str
    """``open``, or which gate is closed."""
    open: bool
    master: bool
    routes: tuple[Route, ...]
    cursors: tuple[CursorDocument, ...]
    passed: int
    oldest_at: datetime | None
    """The time when the oldest event that it has not passed was written."""
    created_at: datetime


class LetterDocument(Struct, frozen=True, kw_only=True):
    """A dead letter of a router: an event that could not be delivered."""

    id: str
    router: str
    route: str
    event: str
    type: str
    stream: str
    key: str | None
    position: int
    payload: Any
    reason: str
    detail: str
    number: int
    created_at: datetime | None
    resolved_at: datetime | None
    resolution: str | None


class LetterPage(DocumentPage[LetterDocument], frozen=True, kw_only=True):
    """A router's letters that nobody has resolved, in the log's order; ``next`` is a position."""


class AttemptDocument(Struct, frozen=True, kw_only=True):
    """The decision of a router about an event."""

    router: str
    event: str
    position: int
    route: str
    status: AttemptStatus
    number: int
    detail: str | None
    at: datetime | None
    key: str
    """The key by which receivers drop duplicates: the same at every attempt."""


class AttemptPage(DocumentPage[AttemptDocument], frozen=True, kw_only=True):
    """Attempts in the log's order; ``next`` is given back as ``after``."""


class RouterChecked(Struct, frozen=True, kw_only=True):
    """The numbered checks of what must hold for a router."""

    router: str
    items: tuple[Check, ...]
    holds: int
    """The number of checks that hold."""
    fails: int


class RouterList(Struct, frozen=True, kw_only=True):
    """All routers."""

    items: tuple[RouterDocument, ...]


class RouterShown(RouterDocument, frozen=True, kw_only=True):
    """A router with its letters that nobody has resolved."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    letters: tuple[LetterDocument, ...]
    more_letters: bool
    head: int
    """The position of the newest event of its domain; 0 without one."""
    cursors: tuple[CursorShown, ...]
    decisions: tuple[RouteCount, ...]
    """Its newest decisions, by route and status."""
    counted: int
    """The number of decisions that were counted."""
    attempts: tuple[AttemptDocument, ...]
    """Its newest ten."""
    verified: RouterVerified | None
    """None: nobody has asked for it lately."""


def describe_all(found: Iterable[RouterRecord], lags: Sequence[RouterLag]) -> RouterList:
    """The documents of routers."""
    waiting = {one.router: one.oldest_at for one in lags}
    items = tuple(RouterDocument(**_fields(one, waiting.get(one.name))) for one in found)
    return RouterList(items=items)


def describe_shown(
    one: RouterRecord,
    oldest_at: datetime | None,
    letters: Sequence[Letter],
    *,
    more: bool,
    head: int,
    standing: RouterStanding,
    attempts: Sequence[Attempt],
    verified: RouterVerified | None,
    seen: Redaction = PLAIN,
    cut: tuple[str, ...] = (),
) -> RouterShown:
    """The document of one router with its letters, and with how far it is."""
    told = tuple(describe_letter(each, seen) for each in letters)
    lags = {each.partition: each for each in standing.partitions}
    shown = tuple(_cursor(each, lags.get(each.partition)) for each in one.cursors)
    return RouterShown(
        **{**_fields(one, oldest_at), "cursors": shown},
        letters=told,
        more_letters=more,
        head=head,
        decisions=standing.decisions,
        counted=standing.counted,
        attempts=tuple(map(_attempt, attempts)),
        verified=verified,
        cut=cut,
    )


def _cursor(one: Cursor, lag: PartitionLag | None) -> CursorShown:
    return filled(
        CursorShown,
        one,
        held=one.holder is not None,
        worker=worker_of(one.holder) if one.holder and "/" in one.holder else None,
        waiting=None if lag is None else lag.waiting,
        more=lag is not None and lag.more,
        oldest_at=None if lag is None else lag.oldest_at,
    )


def describe_verified(one: ActionRecord) -> RouterVerified:
    """The document of the last checks of a router."""
    return RouterVerified(
        action=one.id,
        at=one.finished_at or one.at,
        state=one.state,
        holds=one.changed,
        fails=sum(one.reasons.values()),
    )


def describe_letter(one: Letter, seen: Redaction = PLAIN) -> LetterDocument:
    """The document of a letter."""
    of_event = {name: getattr(one.event, name) for name in ("type", "stream", "key", "position")}
    return filled(
        LetterDocument,
        one,
        event=one.event.id,
        payload=seen.payload(one.event.payload),
        detail=redact_text(one.detail),
        **of_event,
    )


def describe_letters(found: Sequence[Letter], limit: int, seen: Redaction = PLAIN) -> LetterPage:
    """The document of a page of letters, of which one more than ``limit`` was looked for.

    A page goes on behind a position, so it ends with all letters of one: these belong to one event.
    """
    if len(found) <= limit:
        return LetterPage(items=tuple(describe_letter(one, seen) for one in found), next=None)
    beyond = found[limit].event.position
    whole = [one for one in found[:limit] if one.event.position != beyond] or found[:limit]
    items = tuple(describe_letter(one, seen) for one in whole)
    return LetterPage(items=items, next=str(items[-1].position))


def describe_attempts(found: Sequence[Attempt], limit: int) -> AttemptPage:
    """The document of a page of attempts."""
    items = tuple(_attempt(one) for one in found)
    following = after_full(found, limit, lambda one: f"{one.position}:{one.number}")
    return AttemptPage(items=items, next=following)


def describe_checks(router: str, found: Sequence[Check]) -> RouterChecked:
    """The document of a router's checks."""
    return RouterChecked(
        router=router,
        items=tuple(found),
        holds=sum(one.fine is True for one in found),
        fails=sum(one.fine is False for one in found),
    )


def _attempt(one: Attempt) -> AttemptDocument:
    return filled(AttemptDocument, one, detail=redact_text(one.detail) if one.detail else None)


def router_state(one: RouterRecord) -> str:
    """The state of a router's gates: open, or which one is closed."""
    if not one.master:
        return "closed (master)" if one.open else "closed (both)"
    return "open" if one.open else "closed"


def _fields(one: RouterRecord, oldest_at: datetime | None) -> dict[str, Any]:
    of_record = ("name", "domain", "partitions", "open", "master", "routes", "created_at")
    return {
        **{name: getattr(one, name) for name in of_record},
        "state": router_state(one),
        "cursors": tuple(filled(CursorDocument, each) for each in one.cursors),
        "passed": sum(each.passed for each in one.cursors),
        "oldest_at": oldest_at,
    }
