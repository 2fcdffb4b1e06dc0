"""From keywords to a schedule: everything that can be refused is refused here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict, TypeVar, cast

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.define.task import Sending
from offpath.jobs.schedules.occurrences import Maker, Makers, first_made, occurrence_id
from offpath.jobs.schedules.times import EPOCH, NextTime, next_time
from offpath.jobs.values.job import Job
from offpath.model import checks
from offpath.model.job import NewJob
from offpath.model.schedule import Missed, Overlap, Schedule, Timing, TimingKind
from offpath.model.unsent import unsent
from offpath.runtime.seats import check_seat
from offpath.runtime.zones import zone_of

E = TypeVar("E", bound=StrEnum)

TAG = "schedule:"
MAX_NAME = checks.MAX_NAME - len(TAG)
MOST_MISSED = 1_000


class Terms(TypedDict, total=False):
    """The keywords of a schedule: exactly one of ``cron``, ``every`` and ``when``."""

    cron: str | None
    """Five fields, minute hour day month weekday (six with seconds first), or ``@daily``."""
    zone: str | None
    """The IANA zone in which ``cron`` is read; UTC by default."""
    every: float | timedelta | None
    """Seconds from one occurrence to the next, at least 1."""
    anchor: datetime | None
    """A time that ``every`` is counted from, in both directions; 1970-01-01 UTC by default."""
    when: str | Callable[[datetime], datetime | None] | None
    """A next-time function, or the name under which it is registered."""
    overlap: Overlap | str
    """The rule for an occurrence whose predecessor's job has not ended: ``allow``, ``skip`` or
    ``queue``.
    """
    missed: Missed | str
    """The rule for occurrences that were due while no worker ran: ``skip``, ``one`` or ``all``."""
    missed_limit: int
    """Most that ``all`` makes up for: the latest ones, in their order."""
    grace: float | timedelta
    """Seconds after which an occurrence that was not made counts as missed."""


class Functions(dict[str, NextTime]):
    """Next-time functions by their names."""

    def register(self, function: NextTime, name: str | None = None) -> str:
        """Register it; returns its name. Raises ``InvalidArgument`` when that is another's."""
        if not callable(function):
            raise InvalidArgument(
                f"a next-time function takes a time and returns one, not {function!r}"
            )
        check_seat(function, "a next-time function", plain=True)
        name = checks.name(name or getattr(function, "__name__", ""), "next-time function name")
        if self.setdefault(name, function) is not function:
            raise InvalidArgument(f"there is another next-time function {name!r}: name this one")
        return name


def defined(
    name: str,
    job: Job[Any, Any] | Maker,
    terms: Mapping[str, Any],
    functions: Functions,
    *,
    origin: str,
    makers: Makers | None = None,
) -> Schedule:
    """A schedule of these keywords. Raises ``InvalidArgument``."""
    _refuse_unknown(terms)
    timing = _timing(terms, functions)
    if timing is None:
        raise InvalidArgument(f"schedule {name!r} needs one of cron=, every= and when=")
    named = checks.text(checks.name(name, "schedule name"), "schedule name", longest=MAX_NAME)
    if makers is not None and not isinstance(job, Job | Sending) and callable(job):
        timing = replace(timing, maker=named)
        template = first_made(named, job, timing, functions, template_of)
        makers[named] = job
    else:
        template = template_of(name, job)
    schedule = Schedule(name=named, timing=timing, template=template, origin=origin)
    return _with_policies(schedule, terms)


def changed(
    schedule: Schedule, job: Job[Any, Any] | None, terms: Mapping[str, Any], functions: Functions
) -> Schedule:
    """The schedule with what was given in place of what it had. Raises ``InvalidArgument``."""
    _refuse_unknown(terms)
    template = schedule.template if job is None else template_of(schedule.name, job)
    timing = _timing(terms, functions) or _retimed(schedule, terms)
    timing = replace(timing, maker=schedule.timing.maker if job is None else None)
    return _with_policies(replace(schedule, timing=timing, template=template, origin="api"), terms)


def template_of(name: str, job: object) -> NewJob:
    """The job that each occurrence copies: without an id and times of its own."""
    if not isinstance(job, Job):
        raise InvalidArgument(
            f"schedule {name!r} needs an unsent job, task.job(...), not {type(job).__name__}"
        )
    new = unsent(job).new
    if new.unique is not None:
        raise InvalidArgument(
            f"the job of schedule {name!r} has a unique key: use overlap='skip' or 'queue', and "
            "task.options(unique=False) where the task has one"
        )
    if new.deadline is not None or new.run_at is not None or new.delay:
        raise InvalidArgument(
            f"the job of schedule {name!r} runs when the schedule says: leave out run_at=, delay= "
            "and a fixed deadline= (seconds are fine: they count from each occurrence's making)"
        )
    tag = f"{TAG}{name}"
    tags = new.tags if tag in new.tags else (*new.tags, tag)
    if len(tags) > checks.MAX_TAGS:
        raise InvalidArgument(f"the job of schedule {name!r} has no room for the tag {tag!r}")
    return replace(new, id=occurrence_id(name, EPOCH), tags=tags, parent=None, group_id=None)


def _refuse_unknown(terms: Mapping[str, Any]) -> None:
    if unknown := sorted(set(terms) - set(Terms.__annotations__)):
        raise InvalidArgument(
            f"a schedule has no {', '.join(unknown)}; it has {', '.join(Terms.__annotations__)}"
        )


def _timing(terms: Mapping[str, Any], functions: Functions) -> Timing | None:
    """The timing that was given, None when none was."""
    cron, every, when = (terms.get(each) for each in ("cron", "every", "when"))
    given = [each for each in (cron, every, when) if each is not None]
    if len(given) > 1:
        raise InvalidArgument("a schedule has one of cron=, every= and when=, not several")
    if not given:
        return None
    if cron is not None:
        timing = Timing(kind=TimingKind.CRON, expression=cron)
    elif every is not None:
        timing = Timing(kind=TimingKind.EVERY, seconds=checks.seconds(every, "every"))
    else:
        named = when if isinstance(when, str) else functions.register(cast("NextTime", when))
        timing = Timing(kind=TimingKind.FUNCTION, function=named)
    return _placed(timing, terms, functions)


def _retimed(schedule: Schedule, terms: Mapping[str, Any]) -> Timing:
    """The timing that it has, in another zone or from another anchor if one was given."""
    return _placed(schedule.timing, terms, None)


def _placed(timing: Timing, terms: Mapping[str, Any], functions: Functions | None) -> Timing:
    zone, anchor = terms.get("zone"), terms.get("anchor")
    if zone is not None:
        if timing.kind is not TimingKind.CRON:
            raise InvalidArgument("zone= is for cron=: an interval and a function have none")
        timing = replace(timing, zone=zone_of(zone).key)
    if anchor is not None:
        if timing.kind is not TimingKind.EVERY:
            raise InvalidArgument("anchor= is for every=")
        timing = replace(timing, anchor=checks.aware(anchor, "anchor"))
    if functions is not None:
        next_time(timing, functions)
    return timing


def _with_policies(schedule: Schedule, terms: Mapping[str, Any]) -> Schedule:
    overlap = terms.get("overlap", schedule.overlap)
    missed = terms.get("missed", schedule.missed)
    limit = terms.get("missed_limit", schedule.missed_limit)
    return replace(
        schedule,
        overlap=_choice(Overlap, overlap, "overlap"),
        missed=_choice(Missed, missed, "missed"),
        missed_limit=checks.integer(limit, "missed_limit", least=1, most=MOST_MISSED),
        grace=checks.seconds(terms.get("grace", schedule.grace), "grace"),
    )


def _choice(kind: type[E], given: object, what: str) -> E:
    try:
        return kind(str(given))
    except ValueError:
        raise InvalidArgument(f"{what} must be one of {', '.join(kind)}, not {given!r}") from None
