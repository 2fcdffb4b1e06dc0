"""Documents of groups: a job and everything that it queued, as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from offpath.jobs.values.group_codecs import unsigned
from offpath.model.group import GroupPolicy, GroupRecord
from offpath.model.job import Count
from offpath.operating.documents.fields import filled
from offpath.operating.documents.jobs import JobPage
from offpath.operating.redaction import PLAIN, Redaction


class GroupDocument(Struct, frozen=True, kw_only=True):
    """A group: its counts, and its value decoded where it is JSON, secrets hidden."""

    id: str
    open: int
    failed: int
    policy: GroupPolicy
    closing: bool
    final: bool
    state: str
    counts: dict[str, int]
    value: Any


class GroupStanding(GroupDocument, frozen=True, kw_only=True):
    """A group with some of its open and failed members."""

    open_members: JobPage
    failed_members: JobPage


def describe(group: GroupRecord, counts: dict[str, int], seen: Redaction = PLAIN) -> GroupDocument:
    """The document of a group with the number of its members in each state."""
    return filled(GroupDocument, group, **_own(group, counts, seen))


def describe_standing(
    group: GroupRecord,
    counts: dict[str, int],
    seen: Redaction = PLAIN,
    *,
    open_members: JobPage,
    failed_members: JobPage,
) -> GroupStanding:
    """The document of a group with members."""
    members = {"open_members": open_members, "failed_members": failed_members}
    return filled(GroupStanding, group, **_own(group, counts, seen), **members)


def by_state(counts: Iterable[Count]) -> dict[str, int]:
    """The number of members in each state; only states that have some."""
    found: dict[str, int] = {}
    for one in counts:
        found[one.state.value] = found.get(one.state.value, 0) + one.count
    return found


def _own(group: GroupRecord, counts: dict[str, int], seen: Redaction) -> dict[str, Any]:
    value = seen.payload(unsigned(group.result))
    return {"state": _state(group), "counts": counts, "value": value}


def _state(group: GroupRecord) -> str:
    """A group's state in a word."""
    if group.done:
        return "failed" if group.failed else "done"
    return "closing" if group.closing else "open"
