"""The row of a job in Redis: a record and its terms, as JSON that a function can change.

Times are texts of microseconds since 1970, and so are fractions: a function's numbers have 53 bits,
and it writes 14 digits. What a function never reads lies in fields of its own, so that it need not
be written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from offpath.model.group import GroupPolicy
from offpath.model.job import (
    TERMINAL,
    Failure,
    JobRecord,
    JobState,
    LeasedJob,
    NewJob,
    UniqueClaim,
    UniquePolicy,
)
from offpath.store.redis import keys
from offpath.store.refusals import not_unicode
from offpath.store.rows.jobs import PLAIN, JobTerms, deadline_of, run_at_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = 62_135_596_800_000_000
"""Microseconds from the year 1 to 1970: with them no time is negative."""

PRIORITY_DIGITS: Final = 10
_TIME_DIGITS: Final = 18

FIELDS: Final = ("d", "i", "r", "f", "g")


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - EPOCH) // _MICROSECOND


def text_of(at: datetime | None) -> str | None:
    """A time as a row has it."""
    return None if at is None else str((at - EPOCH) // _MICROSECOND)


def time_of(text: str | None) -> datetime | None:
    """The time of a row's text."""
    return None if text is None else EPOCH + timedelta(microseconds=int(text))


def moment(text: str) -> datetime:
    """The time of a row's text that is there."""
    return EPOCH + timedelta(microseconds=int(text))


def json_text(value: object) -> str:
    """A value as JSON. Raises StoreRejected for text that cannot be encoded."""
    try:
        return _packed(value).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error


_NAMES: Final = (
    "task queue state run_at enqueued_at group_id fingerprint place priority attempt deliveries "
    "losses redrives options parent dependents deadline unique_key unique_states unique_policy "
    "unique_period unique_until tags fair_key headers worker cancel_requested started_at "
    "finished_at expires_at reason deadline_in announce policy crash alone"
)
_LETTERS: Final = (
    "t q s ra ea gr fp pl p a dl lo rd op pa de dd uk us up ue uu tg fk hd w cr st fi ex re di an "
    "gp su al"
)


class KeptJob(
    Struct,
    frozen=True,
    omit_defaults=True,
    gc=False,
    rename=dict(zip(_NAMES.split(), _LETTERS.split(), strict=True)),
):
    """A job as it is packed, under short names. Absent is what has its default."""

    task: str
    queue: str
    state: JobState
    run_at: str
    enqueued_at: str
    group_id: str
    fingerprint: str
    place: str
    """The member under which it waits when it is ready."""
    priority: int = 0
    attempt: int = 1
    deliveries: int = 0
    losses: int = 0
    redrives: int = 0
    options: str = "{}"
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    deadline: str | None = None
    unique_key: str | None = None
    unique_states: tuple[JobState, ...] = ()
    unique_policy: UniquePolicy = UniquePolicy.ATTACH
    unique_period: str | None = None
    unique_until: str | None = None
    tags: tuple[str, ...] = ()
    fair_key: str | None = None
    headers: str | None = None
    worker: str | None = None
    cancel_requested: bool = False
    started_at: str | None = None
    finished_at: str | None = None
    expires_at: str | None = None
    reason: str | None = None
    deadline_in: str | None = None
    announce: int = 0
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    crash: str | None = None
    alone: bool = False


_SAME: Final = (
    *("task", "queue", "state", "group_id", "fingerprint", "priority", "attempt", "deliveries"),
    *("losses", "redrives", "options", "parent", "dependents", "unique_key", "tags", "fair_key"),
    *("headers", "worker", "cancel_requested", "reason"),
)
_TIMES: Final = ("run_at", "enqueued_at", "deadline", "started_at", "finished_at", "expires_at")
"""The fields of a record that are packed as they are, and those that are packed as texts."""
_packed = msgspec.json.Encoder().encode
_unpacked = msgspec.json.Decoder(KeptJob).decode
_UNCLAIMED: Final = UniqueClaim(key="", states=())
_failures = msgspec.json.Decoder(tuple[Failure, ...]).decode


class StoredJob(NamedTuple):
    """A job with all that is known of it, and the bytes that say so in Redis."""

    record: JobRecord
    terms: JobTerms
    crash: str | None = None
    """The crash whose suspect it is."""
    alone: bool = False
    """True if it was handed out as the only suspect."""
    stored: bytes = b""
    """The row as it is stored; empty where it is not."""


def same(of: object, names: Iterable[str]) -> dict[str, Any]:
    """Fields as they are."""
    return {name: getattr(of, name) for name in names}


def texts(of: object, names: Iterable[str]) -> dict[str, Any]:
    """Times as a row has them."""
    return {name: text_of(getattr(of, name)) for name in names}


def times(of: object, names: Iterable[str]) -> dict[str, Any]:
    """The times of a row's texts."""
    return {name: time_of(getattr(of, name)) for name in names}


def place_of(record: JobRecord) -> str:
    """The member under which a job waits: a better place sorts first."""
    return place_at(record.priority, micros(record.run_at), record.id)


def place_at(priority: int, run_at: int, job_id: str) -> str:
    """The member under which a job of this priority and time waits."""
    # Members are compared as texts: so numbers have a fixed width, and the priority is turned
    # round.
    return f"{2**31 - priority:010d}{run_at + _FIRST:018d}{job_id}"


def run_time(place: str) -> datetime:
    """The run time that a place says."""
    text = place[PRIORITY_DIGITS : PRIORITY_DIGITS + _TIME_DIGITS]
    return moment(str(int(text) - _FIRST))


def packed(row: StoredJob) -> bytes:
    """The bytes of a row."""
    job, terms = row.record, row.terms
    unique = terms.unique or _UNCLAIMED
    return _packed(
        KeptJob(
            **same(job, _SAME),
            **texts(job, _TIMES),
            place=place_of(job),
            unique_states=unique.states,
            unique_policy=unique.policy,
            unique_period=_fraction(unique.period),
            unique_until=text_of(terms.unique_until),
            deadline_in=_fraction(terms.deadline_in),
            announce=terms.announce,
            policy=terms.policy,
            crash=row.crash,
            alone=row.alone,
        )
    )


def new_row(job: NewJob, now: datetime) -> list[Any]:
    """A new job that stands alone, as the function ``enqueue`` takes it.

    Raises ``StoreRejected``, and ``UnicodeEncodeError`` for text that cannot be stored.
    """
    at = now if job.run_at is None and job.delay == 0.0 else run_at_of(job, now)
    time, entered = micros(at), micros(now)
    place, deadline = place_at(job.priority, time, job.id), text_of(deadline_of(job, now))
    row = KeptJob(
        task=job.task,
        queue=job.queue,
        state=JobState.QUEUED,
        run_at=str(time),
        enqueued_at=str(entered),
        group_id=job.id,
        fingerprint=job.fingerprint,
        place=place,
        priority=job.priority,
        options=job.options,
        parent=job.parent,
        dependents=job.dependents,
        deadline=deadline,
        tags=job.tags,
        fair_key=job.fair_key,
        headers=job.headers,
        deadline_in=_fraction(job.deadline_in),
    )
    due = time <= entered
    placed = place if due else str(time)
    blob = _packed(row).decode()
    return [job.id, blob, job.input, job.queue, job.task, due, placed, deadline or False]


def row_of(job_id: str, fields: list[Any]) -> StoredJob:
    """A row from its fields: those of :data:`FIELDS`, in their order."""
    blob, given, result, failures, progress = fields
    kept = _unpacked(blob)
    record = JobRecord(
        id=job_id,
        **same(kept, _SAME),
        **times(kept, _TIMES),
        input="" if given is None else given.decode(),
        result=None if result is None else result.decode(),
        progress=None if progress is None else progress.decode(),
        failures=() if failures is None else _failures(failures),
    )
    return StoredJob(record, _terms(kept), kept.crash, kept.alone, blob)


def _terms(kept: KeptJob) -> JobTerms:
    plain = kept.deadline_in is None and not kept.announce and kept.policy is GroupPolicy.SETTLE_ALL
    if kept.unique_key is None and plain:
        return PLAIN
    unique = None
    if kept.unique_key is not None:
        unique = UniqueClaim(
            key=kept.unique_key,
            policy=kept.unique_policy,
            states=kept.unique_states,
            period=_float(kept.unique_period),
        )
    return JobTerms(
        unique=unique,
        unique_until=time_of(kept.unique_until),
        deadline_in=_float(kept.deadline_in),
        announce=kept.announce,
        policy=kept.policy,
    )


def leased_job(job_id: str, blob: str, given: str) -> LeasedJob:
    """The job that a lease has handed out."""
    kept = _unpacked(blob)
    return LeasedJob(
        id=job_id,
        task=kept.task,
        queue=kept.queue,
        input=given,
        worker=kept.worker or "",
        deliveries=kept.deliveries,
        attempt=kept.attempt,
        options=kept.options,
        group_id=kept.group_id,
        priority=kept.priority,
        run_at=moment(kept.run_at),
        enqueued_at=moment(kept.enqueued_at),
        losses=kept.losses,
        parent=kept.parent,
        dependents=kept.dependents,
        deadline=time_of(kept.deadline),
        headers=kept.headers,
    )


def _fraction(number: float | None) -> str | None:
    return None if number is None else repr(number)


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)


def state_of(blob: bytes) -> JobState:
    """The state of a packed row."""
    return _unpacked(blob).state


def hash_of(row: StoredJob, before: StoredJob | None) -> list[str]:
    """The fields of a job's hash that this row changes, flat. Raises StoreRejected."""
    try:
        fields = _hash_of(row, before)
        for each in fields:
            # Nearly all texts are, which is told without a copy.
            if not each.isascii():
                each.encode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error
    return fields


def _hash_of(row: StoredJob, before: StoredJob | None) -> list[str]:
    job, was = row.record, None if before is None else before.record
    fields = ["d", packed(row).decode()]
    if was is None or was.input != job.input:
        fields += "i", job.input
    if job.result is not None and (was is None or was.result != job.result):
        fields += "r", job.result
    if job.failures and (was is None or was.failures is not job.failures):
        fields += "f", msgspec.json.encode(job.failures).decode()
    if job.progress is not None and (was is None or was.progress != job.progress):
        fields += "g", job.progress
    return fields


def fields_gone(row: StoredJob, before: StoredJob | None) -> list[str]:
    """The fields of a job's hash that this row does not have any more."""
    if before is None:
        return []
    job, was = row.record, before.record
    gone = ["r"] if was.result is not None and job.result is None else []
    return [*gone, "g"] if was.progress is not None and job.progress is None else gone


class IndexEntry(NamedTuple):
    """A member of a sorted set."""

    key: str
    member: str
    score: float = 0
    ready: tuple[str, str, str | None] | tuple[()] = ()
    """Of a ready job: its place, the time when it was enqueued, and its fair key. Its places in
    other orders are made of them."""


def entries(row: StoredJob, now: datetime) -> Iterator[IndexEntry]:
    """The places of a job in the sorted sets. A job that waits stands in one of two."""
    job = row.record
    yield IndexEntry(keys.IDS, job.id)
    yield IndexEntry(keys.STATE + job.state.value, job.id)
    if job.group_id != job.id:
        yield IndexEntry(keys.MEMBERS + job.group_id, job.id)
    if row.crash is not None:
        yield IndexEntry(keys.SUSPECTS, job.id)
    if job.state is JobState.QUEUED:
        if row.crash is None:
            yield waiting_entry(job, now)
        if job.deadline is not None:
            yield IndexEntry(keys.DEADLINES, job.id, micros(job.deadline))
    elif job.state is JobState.RUNNING:
        began = 0 if job.started_at is None else micros(job.started_at)
        yield IndexEntry(keys.HELD + (job.worker or ""), job.id, began)
    elif job.state in TERMINAL and job.expires_at is not None:
        yield IndexEntry(keys.EXPIRING, job.id, micros(job.expires_at))


def waiting_entry(job: JobRecord, now: datetime) -> IndexEntry:
    """The place of a job that waits for a lease."""
    lane = keys.pair(job.queue, job.task)
    if job.run_at > now:
        return IndexEntry(keys.SCHEDULED + lane, job.id, micros(job.run_at))
    return _ready_entry(lane, job)


def _ready_entry(lane: str, job: JobRecord) -> IndexEntry:
    place = place_of(job)
    stands = place, str(micros(job.enqueued_at)), job.fair_key
    return IndexEntry(keys.READY + lane, place, ready=stands)


def waiting_entries(job: JobRecord) -> tuple[IndexEntry, IndexEntry]:
    """Both places in which a stored job may wait: a lease may have made it ready since."""
    lane = keys.pair(job.queue, job.task)
    return _ready_entry(lane, job), IndexEntry(keys.SCHEDULED + lane, job.id)
