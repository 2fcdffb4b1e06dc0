"""The profiles of offpath's own backends, by name: errors, the command and the page read them here,
without a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from offpath.store.capabilities import ALL_PROFILES, Capabilities, Durability, Profile

OFFERED: Final[Mapping[str, frozenset[Profile]]] = {
    "memory": ALL_PROFILES - {Profile.WITHIN},
    "sqlite": ALL_PROFILES,
    "postgres": ALL_PROFILES,
    "redis": frozenset(
        {
            Profile.CORE,
            Profile.UNIQUE,
            Profile.GROUPS,
            Profile.PAUSES,
            Profile.DISPATCH,
            Profile.SCHEDULES,
            Profile.MESSAGES,
        }
    ),
}
"""Each backend with the parts of the contract that it has."""

FEATURES: Final = {
    Profile.CORE: "jobs",
    Profile.UNIQUE: "unique keys",
    Profile.GROUPS: "groups of jobs",
    Profile.PAUSES: "paused queues",
    Profile.DISPATCH: "queues in the order of age or balanced between fair keys",
    Profile.LIMITS: "limits",
    Profile.WORKFLOWS: "gates, steps, signals and undo",
    Profile.SCHEDULES: "schedules",
    Profile.MESSAGES: "outbox, inbox and webhooks",
    Profile.LOG: "the event log and its routers",
    Profile.LEDGER: "the ledger",
    Profile.WITHIN: "writes in the caller's own transaction",
    Profile.OPERATING: "the dashboard, the audit and requests to workers",
}
"""The profiles as an error and the table of backends name them."""

SEES_DEATHS: Final = frozenset({"sqlite", "postgres", "redis"})
"""The backends that declare ``presence``."""
DEATHS: Final = "a worker's death seen before its lease ends"
"""The row of the table that tells of them."""

MEANINGS: Final = {
    Durability.PROCESS: "what is acknowledged ends with the process that holds it",
    Durability.FSYNC: "what is acknowledged is on the disk: it outlives a power cut",
    Durability.SECOND: "what is acknowledged is on the disk within a second, unless power fails",
    Durability.REPLICATED: "what is acknowledged is on a replica too",
    Durability.UNKNOWN: "the server does not say how durable it is: ask its vendor",
}
"""The meaning of each durability, as a sentence."""


def offering(profile: Profile) -> tuple[str, ...]:
    """The backends that have a profile."""
    return tuple(name for name, profiles in OFFERED.items() if profile in profiles)


def table(more: Iterable[Capabilities] = ()) -> list[tuple[str, ...]]:
    """The features by backend, headings first; ``more`` are other packages' backends."""
    more = tuple(more)
    columns = {**OFFERED, **{each.name: each.profiles for each in more}}
    seeing = SEES_DEATHS | {each.name for each in more if each.presence}
    rows = [
        (text, *(_cell(profile in has) for has in columns.values()))
        for profile, text in FEATURES.items()
    ]
    return [("feature", *columns), *rows, (DEATHS, *(_cell(name in seeing) for name in columns))]


def _cell(has: bool) -> str:
    return "yes" if has else "no"
