"""Actions of the command line: what a command changes is noted before, and how it went after."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import tell
from offpath.cli.selection import Selection
from offpath.cli.values import Changed
from offpath.errors import OffpathError
from offpath.model.action import LONGEST_NAME, MOST_IDS
from offpath.model.brief import Kind
from offpath.operating.actions import Asker
from offpath.operating.noted import NotedOrder, NotedOutcome, noted
from offpath.operating.short_ids import all_whole
from offpath.store.capabilities import Profile

T = TypeVar("T")
Command = Callable[..., Awaitable[T]]
About = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The target of an action, from the options that its command was given."""

ACTOR: Final = "OFFPATH_ACTOR"
_WHERE: Final = {"tags": "tag", "group_id": "group"}


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
    return {"where": {_WHERE.get(name, name): value for name, value in which.where.items()}}


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
            async with noting(app, verb, target, chosen) as told:
                value = await command(app, **given)
                _count(told, value)
            return value

        return run

    return wrap


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
    """The options with whole ids of rows."""
    which, kind = given.get("which"), _KINDS.get(verb.partition(".")[0])
    if kind is None or not isinstance(which, Selection) or not which.ids:
        return given
    return {**given, "which": which._replace(ids=await all_whole(app, kind, which.ids))}


_KINDS: Final = {"job": Kind.JOB, "message": Kind.MESSAGE}


def _count(told: NotedOutcome, value: object) -> None:
    if isinstance(value, Changed):
        told.count(len(value.rows), unchanged=len(value.left))
