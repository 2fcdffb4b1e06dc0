"""Definitions that live processes give in several ways: versions of a program in a deploy, or two
programs whose names clash in one database.

Tasks are compared by their signatures, limits and routes by what they say. Which one holds is not
decided here: a job is run by whoever takes it, a limit is that of the last enqueue, and a stored
route takes what it took when it was made. So it is told, as a finding, while both are live.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from offpath.model.declaration import HOOK, ORPHANS, fingerprint

if TYPE_CHECKING:
    from offpath.model.declaration import Declaration
    from offpath.model.job import NewJob
    from offpath.model.route import RouterSpec

Definitions = Mapping[str, Mapping[str, str]]
"""Kind, then name, to fingerprint."""
PREFIX: Final = "several."
"""The first part of the findings' names."""


class DefinedTask(Protocol):
    """A task, as far as processes can differ in it."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...

    @property
    def fn(self) -> Callable[..., Any]:
        """The handler."""
        ...

    @property
    def template(self) -> NewJob:
        """A job of it for which the call says nothing."""
        ...


def definitions(
    tasks: Mapping[str, DefinedTask],
    routers: Callable[[], Iterable[RouterSpec]],
    orphans: object = None,
) -> Definitions:
    """The fingerprints of what this process defines. Of ``orphans``, the watch of lonely groups,
    others are told that there is one.
    """
    known = tuple(tasks.values())
    told = {HOOK: {ORPHANS: fingerprint(ORPHANS)}} if orphans is not None else {}
    return told | {
        "task": {one.name: fingerprint(str(inspect.signature(one.fn))) for one in known},
        "limit": {
            one.name: fingerprint(one.template.limit)
            for one in known
            if one.template.limit is not None
        },
        "route": {
            f"{router.name}:{route.name}": fingerprint((router.domain, route))
            for router in routers()
            for route in router.routes
        },
    }


def several(kind: str, declared: Iterable[Declaration]) -> Iterator[tuple[str, str]]:
    """Names and texts of the findings about a kind of definition."""
    ways = Counter(one.name for one in declared)
    for name, count in ways.items():
        if count > 1:
            yield f"{PREFIX}{kind}.{name}", f"{kind} {name} {_SAYS[kind]}"


_SAYS: Final = {
    "task": (
        "has several signatures in the live workers' code: a deploy is under way, or two programs "
        "that share this database have a task of this name; give one of them another name"
    ),
    "limit": (
        "has several limits in the live workers' code; the last enqueue's holds: a deploy is under "
        "way, or one program was not deployed"
    ),
    "route": (
        "is declared in several ways by live workers: the stored one holds until it is switched; a "
        "deploy is under way, or one program was not deployed"
    ),
}
