"""Choosing jobs: the filters that every listing, count and bulk action understands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from offpath.errors import InvalidArgument, JobNotFound
from offpath.model import checks
from offpath.model.job import DeadReason, JobFilter, JobRecord, JobState
from offpath.runtime.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Callable


class HasName(Protocol):
    """A task, where its name would do."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...


class Where(TypedDict, total=False):
    """The choice of jobs. Every given field must match; where several values are given, one of them
    must.

    Only ``tags`` must all be there. Times are aware datetimes.
    """

    state: JobState | str | Iterable[JobState | str] | None
    task: str | HasName | Iterable[str | HasName] | None
    queue: str | Iterable[str] | None
    tags: Iterable[str] | None
    group_id: str | None
    parent: str | None
    reason: DeadReason | str | Iterable[DeadReason | str] | None
    error_type: str | Iterable[str] | None
    """Type name of the last failure, for example ``ValueError``."""
    fault: str | Iterable[str] | None
    """Key of the fault that a dead job ended by, as the dashboard's ``/faults`` tells it."""
    enqueued_after: datetime | None
    enqueued_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None


def filter_of(where: Where) -> JobFilter:
    """The store's filter. Raises ``InvalidArgument`` for unknown fields and unusable values."""
    fields: dict[str, Any] = {}
    for name, value in where.items():
        if name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise InvalidArgument(f"jobs cannot be chosen by {name!r}; the filters are {known}")
        if value is not None:
            target, read = _FIELDS[name]
            fields[target] = read(value, name)
    return JobFilter(**fields)


def page_limit(limit: int) -> int:
    """A page's size, checked."""
    return checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)


def position(after: str | None) -> str | None:
    """The position where a page continues, checked: from a wrong one it would begin again, for
    ever.
    """
    try:
        return None if after is None else parse_id(after, "after")
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}: give the `next` of the page before") from None


def the_record(found: Sequence[JobRecord], job_id: str) -> JobRecord:
    """The job of an id. Raises ``JobNotFound`` where there is none."""
    if not found:
        raise JobNotFound(f"there is no job {job_id} (any more)")
    return found[0]


def ids_of(ids: Iterable[str]) -> tuple[str, ...]:
    """Job ids in canonical form, without repeats."""
    return tuple(dict.fromkeys(parse_id(each, "job id") for each in ids))


def _states(value: object, name: str) -> tuple[JobState, ...]:
    try:
        return tuple(JobState(str(each)) for each in _several(value))
    except ValueError as error:
        raise InvalidArgument(f"{name}: {error}; the states are {', '.join(JobState)}") from error


def _names(value: object, name: str) -> tuple[str, ...]:
    return tuple(checks.name(getattr(each, "name", each), name) for each in _several(value))


def _texts(value: object, name: str) -> tuple[str, ...]:
    found = _several(value)
    return tuple(checks.text(each, name, longest=checks.MAX_KEY) for each in found)


def _several(value: object) -> tuple[object, ...]:
    alone = isinstance(value, str) or not isinstance(value, Iterable)
    return (value,) if alone else tuple(value)  # type: ignore[arg-type]


def _id(value: Any, name: str) -> str:  # noqa: ANN401 - checked inside
    return parse_id(value, name)


_FIELDS: dict[str, tuple[str, Callable[[Any, str], object]]] = {
    "state": ("states", _states),
    "task": ("tasks", _names),
    "queue": ("queues", _names),
    "tags": ("tags", _texts),
    "group_id": ("group_id", _id),
    "parent": ("parent", _id),
    "reason": ("reasons", _texts),
    "error_type": ("error_types", _texts),
    "fault": ("faults", _texts),
    "enqueued_after": ("enqueued_after", checks.aware),
    "enqueued_before": ("enqueued_before", checks.aware),
    "finished_after": ("finished_after", checks.aware),
    "finished_before": ("finished_before", checks.aware),
}
