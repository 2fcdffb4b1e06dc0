"""Targets: what an action is about, by ids, by a filter, or by a name."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.jobs.client.selection import filter_of
from offpath.model.action import MOST_IDS
from offpath.model.job import JobFilter
from offpath.runtime.ids import parse_id


class JobsWhere(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The filter of jobs, by the names of the commands' options. Each given field must match."""

    state: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    error_type: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    group: str | None = None
    parent: str | None = None
    enqueued_after: datetime | None = None
    enqueued_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None

    def chosen(self) -> JobFilter:
        """The store's filter. Raises ``InvalidArgument``."""
        given: dict[str, Any] = {
            _NAMES.get(name, name): value
            for name in self.__struct_fields__
            if (value := getattr(self, name))
        }
        return filter_of(given)  # type: ignore[arg-type]


_NAMES: Final = {"tag": "tags", "group": "group_id"}


class RowsTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rows by their ids, or those that a filter matches."""

    ids: tuple[str, ...] = ()
    before: datetime | None = None
    """The moment of asking: what came or ended later is left alone."""


class JobsTarget(RowsTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs."""

    where: JobsWhere | None = None


class MessagesWhere(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The filter of messages, by the names of the commands' options."""

    box: str | None = None
    stream: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()


class MessagesTarget(RowsTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages."""

    where: MessagesWhere | None = None


class NamedTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that has a name: a queue, a key of a limit, a schedule, an endpoint, a router."""

    name: str


class IdTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that has an id: a finding, a worker."""

    id: str


class SignalTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job, or the key, that a signal is sent to."""

    target: str
    event: str


class RouteTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A route of a router."""

    router: str
    route: str


class IdsTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Things that have ids: signals."""

    ids: tuple[str, ...]


class GroupsTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups, by the ids of their roots."""

    ids: tuple[str, ...] = ()
    id: str | None = None
    """One, as it was named before there could be several."""

    def named(self) -> tuple[str, ...]:
        """The ids, each once. Raises ``InvalidArgument`` where there is none, or too many."""
        found = tuple(dict.fromkeys((*self.ids, *((self.id,) if self.id else ()))))
        if not 0 < len(found) <= MOST_IDS:
            raise InvalidArgument(f"the target is the ids of 1 to {MOST_IDS:,} groups")
        return found


class SettlementTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kind of settlement runs, and the period that is credited."""

    kind: str
    period: str


class TaskTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task of which a job is made."""

    task: str


class LettersTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters of a router."""

    router: str
    ids: tuple[str, ...]


def checked_letters(target: LettersTarget) -> None:
    """Raise ``InvalidArgument`` unless some letters are named, and not too many."""
    if not target.ids:
        raise InvalidArgument("no letter is named: mark one or more, or give their ids")
    if len(target.ids) > MOST_IDS:
        raise InvalidArgument(f"at most {MOST_IDS:,} letters at once")


def checked_rows(target: RowsTarget, where: Struct | None) -> None:
    """Raise ``InvalidArgument`` unless rows are chosen in one way, and are not too many to name."""
    if bool(target.ids) == (where is not None):
        raise InvalidArgument(
            "the target is ids, or a filter as `where`: give one of them, so that nothing is "
            "chosen by accident"
        )
    if len(target.ids) > MOST_IDS:
        raise InvalidArgument(f"at most {MOST_IDS:,} ids; a filter may choose more")
    for each in target.ids:
        parse_id(each, "id")
