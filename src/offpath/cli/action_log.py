"""Actions of the command line: what a command changes is noted before, and how it went after."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from offpath.app import App
from offpath.cli.frame import tell
from offpath.cli.selection import Selection
from offpath.cli.values import Changed
from offpath.errors import OffpathError
from offpath.model.action import LONGEST_NAME, MOST_IDS
from offpath.model.brief import Kind
from offpath.operating.actions import Asker, begin, end
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


def recorded(verb: str, about: About, *options: str) -> Callable[[Command[T]], Command[T]]:
    """Note the command as an action. ``options`` are those of its own that belong to the verb.

    It stands below the decorator that opens the app.
    """

    def wrap(command: Command[T]) -> Command[T]:
        @functools.wraps(command)
        async def run(app: App, /, **given: Any) -> T:  # noqa: ANN401 - whatever the command takes
            given = await _whole(app, verb, given)
            if not app.store().capabilities.offers(Profile.OPERATING):
                value = await command(app, **given)
                tell(f"not kept: {app.store().capabilities.name} has no audit (offpath backends)")
                return value
            chosen = _told(given, options)
            by = Asker(name=actor(), via="cli")
            record = await begin(app, verb, by, about(given), chosen)
            try:
                value = await command(app, **given)
            except OffpathError as error:
                await end(app, record, error=error)
                raise
            await end(app, record, *_counted(value))
            return value

        return run

    return wrap


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


def _counted(value: object) -> tuple[int, int]:
    return (len(value.rows), len(value.left)) if isinstance(value, Changed) else (1, 0)
