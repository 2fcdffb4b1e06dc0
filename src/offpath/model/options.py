"""The options of a job: what callers may say, and what is stored of it.

One rule merges the levels: queue-time > computed from the input > task > app > built-in, field by
field. An absolute time (``run_at``, a datetime as ``deadline``) given on any level beats a
relative one on any level.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, TypedDict, TypeVar

import msgspec
from msgspec import Struct

from offpath.model.announce import announced
from offpath.model.group import GroupPolicy
from offpath.model.job import JobState, UniqueClaim, UniquePolicy
from offpath.model.limit import LimitSpec
from offpath.model.limit_options import Limit, LimitChoice
from offpath.model.ref import MARK
from offpath.model.retry import (
    DEFAULT_POLICY,
    BackoffFunction,
    RetryOptions,
    RetryPolicy,
    merged_retry,
)

DEFAULT_QUEUE = "default"

_T = TypeVar("_T")
_LIVE_STATES = (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)


class Unique(Struct, frozen=True, kw_only=True):
    """One job per key: ``Unique(key="user-7", period=60)``.

    The key belongs to the task (two tasks never clash). It is held while the job is in one of
    ``states`` and, with ``period``, no longer than that from enqueue. ``policy`` says what
    another enqueue with the same key does meanwhile: ``attach`` (the handle of the holder; another
    input is a ``UniqueConflict``), ``replace`` a waiting holder, or ``refuse``.
    """

    key: str
    states: Collection[JobState | str] = _LIVE_STATES
    period: float | timedelta | None = None
    policy: UniquePolicy | Literal["attach", "replace", "refuse"] = UniquePolicy.ATTACH


class Options(Struct, frozen=True, kw_only=True):
    """The options of one job. None leaves it to the level below.

    Durations are seconds or timedelta; ``math.inf`` lifts a limit that a lower level set.
    """

    id: str | None = None
    """The job's own id (a UUID as text); None mints one. Given at queue time only."""
    ref: str | None = None
    """A name of your own for the job, as ``invoice-7``, in place of an id. It is unique in the
    store while the job is there, and ``ref:invoice-7`` stands for the id everywhere. Given at queue
    time only."""
    delay: float | timedelta | None = None
    """The delay before it is due."""
    run_at: datetime | None = None
    """The time when it is due; an aware datetime. Beats ``delay``."""
    priority: int | None = None
    """Higher runs first; 0 by default."""
    queue: str | None = None
    retry: RetryOptions | RetryPolicy | int | None = None
    """The policy of its retries; an int is the number of attempts."""
    timeout: float | timedelta | None = None
    """The longest that one attempt may take."""
    deadline: datetime | timedelta | float | None = None
    """The time when the whole job must have ended: a datetime, or counted from enqueue."""
    unique: Unique | str | Literal[False] | None = None
    """A unique key; False lifts one that a lower level set."""
    tags: Sequence[str] | None = None
    retention: float | timedelta | None = None
    """The time that a succeeded job and its result are kept; ``math.inf`` until it is deleted.
    Dead and cancelled jobs are kept as the settings say: a short-lived result loses no dead letter.
    """
    announce: Collection[JobState | str] | None = None
    """The states whose entering becomes an event of the outbox stream ``offpath.jobs``, written in
    the transaction that changes the state; an empty list lifts what a lower level set."""
    announce_details: bool | None = None
    """True if those events also tell the result, or the type of the error."""
    group_policy: GroupPolicy | Literal["settle_all", "fail_fast"] | None = None
    """The fate of the other jobs of its group when one of them died or was cancelled:
    ``settle_all`` (they run to their ends, the default) or ``fail_fast`` (they are cancelled). Only
    the group's first job has a say."""
    limit: Limit | Sequence[Limit] | Literal[False] | None = None
    """The number of a key's jobs that run at once in the fleet, and that start in a time; of
    several all must have room. False lifts what a lower level set.
    """
    fair_key: str | None = None
    """The owner of the job, as a tenant's id: ``dispatch="balanced"`` serves these in turn."""
    headers: Mapping[str, str] | None = None
    """Texts that travel with the job and are not arguments, as a request's id: ``ctx.headers``. At
    most 64, of 8 KiB together. They do not tell a repeat from another job."""


class TaskOptions(TypedDict, total=False):
    """The fields of :class:`Options` that are defaults of a task or an app."""

    priority: int | None
    queue: str | None
    retry: RetryOptions | RetryPolicy | int | None
    timeout: float | timedelta | None
    deadline: datetime | timedelta | float | None
    tags: Sequence[str] | None
    retention: float | timedelta | None
    announce: Collection[JobState | str] | None
    announce_details: bool | None
    group_policy: GroupPolicy | Literal["settle_all", "fail_fast"] | None


class AppOptions(TaskOptions, total=False):
    """The fields of :class:`Options` that are defaults of an app."""

    limit: LimitChoice
    fair_key: str | None


class QueueOptions(TaskOptions, total=False):
    """All fields of :class:`Options`, as keywords of ``task.options(...)``."""

    limit: LimitChoice
    fair_key: str | None
    headers: Mapping[str, str] | None

    id: str | None
    ref: str | None
    delay: float | timedelta | None
    run_at: datetime | None
    unique: Unique | str | Literal[False] | None


class RunOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options that are stored with a job for the worker that will run it. All defaults encode
    to ``{}``.
    """

    retry: RetryPolicy = DEFAULT_POLICY
    timeout: float | None = None
    """Seconds per attempt; None: without a limit."""
    keep: float | None = None
    """Seconds to keep the succeeded job; None leaves it to the worker's settings."""
    keep_forever: bool = False
    """Keep the succeeded job until it is deleted, whatever the settings say."""
    scheduled_for: datetime | None = None
    """The occurrence of a schedule that it was made for."""
    of_task: bool = False
    """True if the options are those of its task as the worker defines it: it was put in by SQL,
    where nobody knows them. A worker of the release before takes the built-in defaults."""

    def keep_succeeded(self, default: float | None) -> float | None:
        """Seconds to keep the succeeded job, None for ever; ``default`` is the settings' answer."""
        if self.keep_forever:
            return None
        return default if self.keep is None else self.keep


class OptionLevel(Struct, frozen=True, kw_only=True):
    """Checked :class:`Options` of one level: seconds, UTC, tuples. Made by :func:`checked`."""

    id: str | None = None
    ref: str | None = None
    """With it the id is the ref's."""
    delay: float | None = None
    run_at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    retry: RetryOptions | None = None
    timeout: float | None = None
    deadline: datetime | float | None = None
    unique: UniqueClaim | Literal[False] | None = None
    """The claim with its bare key, not yet inside a task's name space."""
    tags: tuple[str, ...] | None = None
    retention: float | None = None
    announce: tuple[JobState, ...] | None = None
    announce_details: bool | None = None
    limit: LimitSpec | Literal[False] | None = None
    """Its key may be open: the task's name."""
    fair_key: str | None = None
    headers: str | None = None
    """Encoded."""
    group_policy: GroupPolicy | None = None


class Resolved(Struct, frozen=True, kw_only=True):
    """Every option of one job, decided. Made by :func:`resolve`."""

    id: str | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    priority: int = 0
    queue: str = DEFAULT_QUEUE
    deadline: datetime | None = None
    deadline_in: float | None = None
    unique: UniqueClaim | None = None
    """With its bare key: :func:`claim_of` puts it inside the task's name space."""
    tags: tuple[str, ...] = ()
    announce: int = 0
    """See :mod:`offpath.model.announce`."""
    limit: LimitSpec | None = None
    """Its key may be open: :func:`offpath.model.limit_options.limit_of` fills it in."""
    fair_key: str | None = None
    headers: str | None = None
    """Encoded."""
    group_policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    run: str = "{}"
    """Encoded :class:`RunOptions`."""
    backoff: BackoffFunction | None = None
    """The function of a custom backoff, which is not stored."""


_DEFAULT_RUN = RunOptions()
_run_encoder = msgspec.json.Encoder()
_run_decoder = msgspec.json.Decoder(RunOptions)


def encode_run(options: RunOptions) -> str:
    """The text that is stored with a job."""
    return _run_encoder.encode(options).decode()


def decode_run(text: str) -> RunOptions:
    """The options that :func:`encode_run` wrote; fields of later versions are ignored.

    Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError`` for anything else.
    """
    return _DEFAULT_RUN if text == "{}" else _decode_run(text)


@lru_cache(maxsize=1024)
def _decode_run(text: str) -> RunOptions:
    return _run_decoder.decode(text)


def over(upper: OptionLevel, lower: OptionLevel | None) -> OptionLevel:
    """``upper`` where it says something, otherwise ``lower``."""
    if lower is None:
        return upper
    said = {
        name: value for name, value in msgspec.structs.asdict(upper).items() if value is not None
    }
    return msgspec.structs.replace(lower, **said)


def resolve(levels: Sequence[OptionLevel]) -> Resolved:
    """Decide every field from levels, highest first."""
    retry, backoff = merged_retry(tuple(level.retry for level in levels))
    deadline, deadline_in = _deadline(tuple(level.deadline for level in levels))
    return Resolved(
        id=_first(level.id for level in levels),
        delay=_first(level.delay for level in levels) or 0.0,
        run_at=_first(level.run_at for level in levels),
        priority=_first(level.priority for level in levels) or 0,
        queue=_first(level.queue for level in levels) or DEFAULT_QUEUE,
        deadline=deadline,
        deadline_in=deadline_in,
        unique=_claim(level.unique for level in levels),
        tags=_tags(levels),
        announce=_announced(levels),
        limit=_limit(level.limit for level in levels),
        fair_key=_first(level.fair_key for level in levels),
        headers=_first(level.headers for level in levels),
        group_policy=_first(level.group_policy for level in levels) or GroupPolicy.SETTLE_ALL,
        run=encode_run(_run_options(levels, retry)),
        backoff=backoff,
    )


def _tags(levels: Sequence[OptionLevel]) -> tuple[str, ...]:
    tags = _first(level.tags for level in levels) or ()
    ref = _first(level.ref for level in levels)
    return tags if ref is None else (*tags, f"{MARK}{ref}")


def resolve_keys(keys: OptionLevel, below: Resolved) -> Resolved:
    """The result of :func:`resolve` for a highest level with only a unique key, a limit or a fair
    key, over levels that are resolved already.
    """
    return msgspec.structs.replace(
        below,
        unique=below.unique if keys.unique is None else keys.unique or None,
        limit=below.limit if keys.limit is None else keys.limit or None,
        fair_key=below.fair_key if keys.fair_key is None else keys.fair_key,
    )


def claim_of(task: str, claim: UniqueClaim) -> UniqueClaim:
    """The claim inside the task's own name space: two tasks never clash.

    The name is written without colons, so no two pairs of task and key are the same text.
    """
    name = task.replace("%", "%25").replace(":", "%3A")
    return msgspec.structs.replace(claim, key=f"{name}:{claim.key}")


def _announced(levels: Sequence[OptionLevel]) -> int:
    states = _first(level.announce for level in levels)
    details = _first(level.announce_details for level in levels)
    return announced(states, details=bool(details)) if states else 0


def _run_options(levels: Sequence[OptionLevel], retry: RetryPolicy) -> RunOptions:
    timeout = _first(level.timeout for level in levels)
    keep = _first(level.retention for level in levels)
    return RunOptions(
        retry=retry,
        timeout=None if timeout == math.inf else timeout,
        keep=None if keep == math.inf else keep,
        keep_forever=keep == math.inf,
    )


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)


def _claim(values: Iterable[UniqueClaim | Literal[False] | None]) -> UniqueClaim | None:
    first = next((value for value in values if value is not None), None)
    return first or None


def _limit(values: Iterable[LimitSpec | Literal[False] | None]) -> LimitSpec | None:
    first = next((value for value in values if value is not None), None)
    return first or None


def _deadline(values: Sequence[datetime | float | None]) -> tuple[datetime | None, float | None]:
    absolute = next((value for value in values if isinstance(value, datetime)), None)
    relative = next((value for value in values if isinstance(value, float)), None)
    if absolute is not None:
        return absolute, None
    return None, None if relative == math.inf else relative
