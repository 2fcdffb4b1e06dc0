"""Actions of the command line: what a command changes is noted before, and how it went after."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import Filters, ask, interruptible, tell
from offpath.cli.selection import Selection
from offpath.cli.values import Changed
from offpath.errors import OffpathError
from offpath.model.action import LONGEST_NAME, MOST_IDS
from offpath.model.brief import Kind
from offpath.model.message import Box
from offpath.operating.actions import Asker
from offpath.operating.noted import NotedOrder, NotedOutcome, noted
from offpath.operating.orders import ActionAsked, order_of
from offpath.operating.previews import RowCount, count
from offpath.operating.short_ids import all_whole, completed, group_whole
from offpath.store.capabilities import Profile

T = TypeVar("T")
Command = Callable[..., Awaitable[T]]
About = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The target of an action, from the options that its command was given."""

ACTOR: Final = "OFFPATH_ACTOR"
_WHERE: Final = {
    "tags": "tag",
    "group_id": "group",
    "streams": "stream",
    "topics": "topic",
    "keys": "key",
    "reasons": "reason",
}
"""The names of filters in a target, where commands have others."""


def actor() -> str:
    """The person who runs the command: ``OFFPATH_ACTOR``, otherwise the user at this machine."""
    given = os.environ.get(ACTOR, "").strip()
    if given:
        return given[:LONGEST_NAME]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return f"{user}@{socket.gethostname()}"[:LONGEST_NAME]


def named(option: str = "name", to: str = "name") -> About:
    """The target of a command on one thing, by the option that names it."""
    return lambda given: {to: str(given[option])}


def rows(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a command on rows: ids, or the filter that chose them."""
    which: Selection = given["which"]
    if which.ids:
        return {"ids": which.ids[:MOST_IDS]}
    return {"where": _by_target(which.where)}


def _by_target(where: Filters) -> dict[str, Any]:
    """Filters by the names that targets have for them."""
    return {_WHERE.get(name, name): value for name, value in where.items()}


def rows_in(box: Box) -> About:
    """The target of a command on messages of a box."""

    def about(given: Mapping[str, Any]) -> Mapping[str, Any]:
        target = rows(given)
        return {"where": {"box": box.value, **target["where"]}} if "where" in target else target

    return about


def replayed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a command that sends again what was delivered."""
    return {"where": {"box": Box.OUT.value, **_by_target(given["where"])}}


async def with_group(app: App, where: Filters) -> Filters:
    """The filters with the whole id of the group, of which a unique beginning was given."""
    given = where.get("group_id")
    return where if given is None else {**where, "group_id": await group_whole(app, given)}


@asynccontextmanager
async def noting(
    app: App,
    verb: str,
    target: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    note: str = "",
    if_possible: bool = False,
) -> AsyncIterator[NotedOutcome]:
    """Note what is done here as an action of whoever runs the command.

    ``if_possible`` is for what is only read, which a role may do that writes nothing: then a note
    that cannot be kept is said, and hinders nothing.
    """
    order = NotedOrder(verb=verb, target=target or {}, options=options or {}, note=note)
    async with AsyncExitStack() as stack:
        try:
            await app.open()
            capabilities = app.store().capabilities
            if capabilities.offers(Profile.OPERATING):
                by = Asker(name=actor(), via="cli")
                told = await stack.enter_async_context(noted(app, order, by))
            else:
                kept_nowhere = f"not kept: {capabilities.name} has no audit (offpath backends)"
                stack.callback(tell, kept_nowhere)
                told = NotedOutcome()
        except OffpathError as error:
            if not if_possible:
                raise
            output.note(f"this is not kept among the actions: {error}")
            told = NotedOutcome()
        yield told


def recorded(verb: str, about: About, *options: str) -> Callable[[Command[T]], Command[T]]:
    """Note the command as an action. ``options`` are those of its own that belong to the verb.

    It stands below the decorator that opens the app.
    """

    def wrap(command: Command[T]) -> Command[T]:
        @functools.wraps(command)
        async def run(app: App, /, **given: Any) -> T:  # noqa: ANN401 - whatever the command takes
            given = await _whole(app, verb, given)
            chosen = _told(given, options)
            target = await _bounded(app, verb, about(given))
            await _asked(app, verb, target, given)
            async with noting(app, verb, target, chosen) as told:
                value = await command(app, **given)
                _count(told, value)
            return value

        return run

    return wrap


async def _asked(app: App, verb: str, target: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Ask about rows that a filter chose, by their number; nobody is asked about none."""
    which = given.get("which")
    if not isinstance(which, Selection) or which.question is None:
        return
    counted = await _counted(app, verb, target)
    if counted.rows != 0:
        with interruptible():
            ask(which.question.text(counted.rows, more=counted.more, limit=given.get("limit")))


async def _counted(app: App, verb: str, target: Mapping[str, Any]) -> RowCount:
    """The number of rows; unknown where the store has no lists to count them by."""
    if not app.store().capabilities.offers(Profile.OPERATING):
        return RowCount(rows=None)
    asked = ActionAsked(verb=verb, target=msgspec.to_builtins(target))
    return await count(app, await order_of(app, asked, draft=True))


async def _bounded(app: App, verb: str, target: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target with the moment of asking, where a filter chose it: whoever carries on what was
    killed leaves later rows alone.
    """
    if "where" not in target or verb.partition(".")[0] not in _KINDS:
        return target
    return {**target, "before": await app.store().ping()}


def _told(given: Mapping[str, Any], options: Iterable[str]) -> dict[str, Any]:
    """The options that belong to the verb; one that is several has them by its fields."""
    found: dict[str, Any] = {}
    for name in options:
        value = given.get(name)
        several = asdict(value) if isinstance(value, Struct) else {name: value}
        found |= {each: one for each, one in several.items() if one is not None}
    return found


async def _whole(app: App, verb: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options with whole ids of rows, of a letter and of the group in a filter."""
    which, kind = given.get("which"), _KINDS.get(verb.partition(".")[0])
    if "letter" in given:
        return {**given, "letter": await completed(app, Kind.LETTER, given["letter"])}
    if kind is None or not isinstance(which, Selection):
        return given
    ids, where = await all_whole(app, kind, which.ids), await with_group(app, which.where)
    return {**given, "which": which._replace(ids=ids, where=where)}


_KINDS: Final = {"job": Kind.JOB, "message": Kind.MESSAGE}


def _count(told: NotedOutcome, value: object) -> None:
    if isinstance(value, Changed):
        told.count(len(value.rows), unchanged=len(value.left))
