"""Options as a caller gives them, checked and brought into one form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.announce import BITS
from offpath.model.given_ref import checked_ref
from offpath.model.group import GroupPolicy
from offpath.model.headers import encoded_headers
from offpath.model.job import LIVE, JobState, UniqueClaim, UniquePolicy
from offpath.model.limit_options import checked_limit
from offpath.model.limit_options import fair_key as checked_fair_key
from offpath.model.options import OptionLevel, Options, Unique
from offpath.model.ref import MARK, ref_id
from offpath.model.retry import as_retry


def checked(options: Options) -> OptionLevel:
    """The same options in one form: seconds, UTC, tuples. Raises ``InvalidArgument``."""
    ref = _ref(options)
    return OptionLevel(
        id=options.id if ref is None else ref_id(ref),
        ref=ref,
        delay=_optional(options.delay, "delay"),
        run_at=None if options.run_at is None else checks.aware(options.run_at, "run_at"),
        priority=_optional_priority(options.priority),
        queue=None if options.queue is None else checks.name(options.queue, "queue"),
        retry=None if options.retry is None else as_retry(options.retry),
        timeout=_optional_limit(options.timeout, "timeout"),
        deadline=_optional_deadline(options.deadline),
        unique=checked_unique(options.unique),
        tags=None if options.tags is None else checked_tags(options.tags),
        retention=_optional(options.retention, "retention", unlimited=True),
        announce=None if options.announce is None else checked_announce(options.announce),
        announce_details=_details(options.announce_details),
        limit=checked_limit(options.limit),
        fair_key=checked_fair_key(options.fair_key),
        headers=encoded_headers(options.headers),
        group_policy=None if options.group_policy is None else _group_policy(options.group_policy),
    )


def checked_queue_time(options: Options) -> OptionLevel:
    """The options as :func:`checked` reads them; an option that a single job cannot have is
    refused.
    """
    result = checked(options)
    if result.retry is not None and result.retry.function is not None:
        raise InvalidArgument(
            "a custom backoff function cannot be stored with a job: "
            "give it to the task, @app.task(retry=Backoff.custom(...))"
        )
    return result


def checked_unique(value: object) -> UniqueClaim | Literal[False] | None:
    """A unique key in one form. Raises ``InvalidArgument``."""
    if value is None or value is False:
        return value
    unique = Unique(key=value) if isinstance(value, str) else value
    if not isinstance(unique, Unique):
        raise InvalidArgument(f"unique must be a str or offpath.Unique, not {type(value).__name__}")
    return UniqueClaim(
        key=checks.text(unique.key, "unique key", longest=checks.MAX_KEY),
        states=_unique_states(unique.states),
        period=_optional(unique.period, "unique period"),
        policy=_unique_policy(unique.policy),
    )


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags without repeats, in the order given. Raises ``InvalidArgument``."""
    if isinstance(tags, str):
        raise InvalidArgument(f"tags must be a list of str, not one str: write tags=[{tags!r}]")
    result = tuple(dict.fromkeys(checks.text(tag, "tag", longest=checks.MAX_NAME) for tag in tags))
    if len(result) > checks.MAX_TAGS:
        raise InvalidArgument(f"a job can have at most {checks.MAX_TAGS} tags, not {len(result)}")
    return result


def checked_announce(states: Iterable[JobState | str]) -> tuple[JobState, ...]:
    """States that can be announced. Raises ``InvalidArgument``."""
    known = ", ".join(state.value for state in BITS)
    if isinstance(states, str):
        raise InvalidArgument(f"announce must be a list of states, not one str: [{states!r}]")
    given = tuple(states)
    for state in given:
        if state not in BITS:
            raise InvalidArgument(f"announce: {state!r} is none of the states {known}")
    return tuple(JobState(state) for state in given)


def _details(given: object) -> bool | None:
    if given is None or isinstance(given, bool):
        return given
    raise InvalidArgument(f"announce_details is True or False, not {given!r:.80}")


def _ref(options: Options) -> str | None:
    if options.ref is None:
        given = options.id if isinstance(options.id, str) else ""
        return checked_ref(given.removeprefix(MARK)) if given.startswith(MARK) else None
    if options.id is not None:
        raise InvalidArgument("give id or ref, not both: the id of a job with a ref is the ref's")
    return checked_ref(options.ref)


def _optional(
    value: float | timedelta | None, what: str, *, unlimited: bool = False
) -> float | None:
    return value if value is None else checks.seconds(value, what, unlimited=unlimited)


def _optional_limit(value: float | timedelta | None, what: str) -> float | None:
    limit = _optional(value, what, unlimited=True)
    if limit == 0:
        raise InvalidArgument(f"{what} must be more than 0 seconds; math.inf lifts it")
    return limit


def _optional_deadline(
    value: datetime | timedelta | float | None,
) -> datetime | float | None:
    if isinstance(value, datetime):
        return checks.aware(value, "deadline")
    return _optional_limit(value, "deadline")


def _optional_priority(value: int | None) -> int | None:
    if value is None:
        return None
    most = checks.MAX_PRIORITY
    return checks.integer(value, "priority", least=-most, most=most)


def _unique_states(states: Iterable[JobState | str]) -> tuple[JobState, ...]:
    if isinstance(states, str):
        raise InvalidArgument(f"unique states must be a list of states, not one str: [{states!r}]")
    try:
        given = {JobState(state) for state in states}
    except ValueError as error:
        raise InvalidArgument(
            f"unique states: {error}; the states are {', '.join(JobState)}"
        ) from error
    if not given & LIVE:
        raise InvalidArgument("unique states must have at least one of blocked, queued, running")
    return tuple(state for state in JobState if state in given)


def _unique_policy(policy: str) -> UniquePolicy:
    try:
        return UniquePolicy(policy)
    except ValueError as error:
        raise InvalidArgument(
            f"unique policy must be one of {', '.join(UniquePolicy)}, not {policy!r}"
        ) from error


def _group_policy(policy: str) -> GroupPolicy:
    try:
        return GroupPolicy(policy)
    except ValueError as error:
        raise InvalidArgument(
            f"group_policy must be one of {', '.join(GroupPolicy)}, not {policy!r}"
        ) from error
