"""The row of a job in Redis: a record and its terms, as JSON that a function can change.

Times are texts of microseconds since 1970, and so are fractions: a function's numbers have 53 bits,
and it writes 14 digits. What a function never reads lies in fields of its own, so that it need not
be written again.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class KeptJob(Struct, frozen=True, omit_defaults=True, gc=False):
    """A job as it is packed. Absent is what has its default."""

    t: str  # task
    q: str  # queue
    s: str  # state
    ra: str  # run_at
    ea: str  # enqueued_at
    gr: str  # group_id
    fp: str  # fingerprint
    pl: str  # the member under which it waits when it is ready
    p: int = 0  # priority
    a: int = 1  # attempt
    dl: int = 0  # deliveries
    lo: int = 0  # losses
    rd: int = 0  # redrives
    op: str = "{}"  # options
    pa: str | None = None  # parent
    de: tuple[str, ...] = ()  # dependents
    dd: str | None = None  # deadline
    uk: str | None = None  # unique key
    us: tuple[str, ...] = ()  # the states in which it is held
    up: str = ""  # policy
    ue: str | None = None  # period
    uu: str | None = None  # the end of the period
    tg: tuple[str, ...] = ()  # tags
    fk: str | None = None  # fair key
    hd: str | None = None  # headers
    w: str | None = None  # worker
    cr: bool = False  # cancel requested
    st: str | None = None  # started_at
    fi: str | None = None  # finished_at
    ex: str | None = None  # expires_at
    re: str | None = None  # reason
    di: str | None = None  # deadline_in
    an: int = 0  # announced changes
    gp: str = ""  # policy of its group
    su: str | None = None  # the crash whose suspect it is
    al: bool = False  # it was handed out alone


_packed = msgspec.json.Encoder().encode
_unpacked = msgspec.json.Decoder(KeptJob).decode
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


def place_of(record: JobRecord) -> str:
    """The member under which a job waits: a better place sorts first."""
    return place_at(record.priority, micros(record.run_at), record.id)


def place_at(priority: int, run_at: int, job_id: str) -> str:
    """The member under which a job of this priority and time waits."""
    return f"{2**31 - priority:010d}{run_at + _FIRST:018d}{job_id}"


def run_time(place: str) -> datetime:
    """The run time that a place says."""
    text = place[PRIORITY_DIGITS : PRIORITY_DIGITS + _TIME_DIGITS]
    return moment(str(int(text) - _FIRST))


def packed(row: StoredJob) -> bytes:
    """The bytes of a row."""
    job, terms = row.record, row.terms
    unique = terms.unique
    return _packed(
        KeptJob(
            t=job.task,
            q=job.queue,
            s=job.state.value,
            ra=str(micros(job.run_at)),
            ea=str(micros(job.enqueued_at)),
            gr=job.group_id,
            fp=job.fingerprint,
            pl=place_of(job),
            p=job.priority,
            a=job.attempt,
            dl=job.deliveries,
            lo=job.losses,
            rd=job.redrives,
            op=job.options,
            pa=job.parent,
            de=job.dependents,
            dd=text_of(job.deadline),
            uk=job.unique_key,
            us=() if unique is None else tuple(state.value for state in unique.states),
            up="" if unique is None else unique.policy.value,
            ue=None if unique is None else _fraction(unique.period),
            uu=text_of(terms.unique_until),
            tg=job.tags,
            fk=job.fair_key,
            hd=job.headers,
            w=job.worker,
            cr=job.cancel_requested,
            st=text_of(job.started_at),
            fi=text_of(job.finished_at),
            ex=text_of(job.expires_at),
            re=job.reason,
            di=_fraction(terms.deadline_in),
            an=terms.announce,
            gp="" if terms.policy is GroupPolicy.SETTLE_ALL else terms.policy.value,
            su=row.crash,
            al=row.alone,
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
        t=job.task,
        q=job.queue,
        s="queued",
        ra=str(time),
        ea=str(entered),
        gr=job.id,
        fp=job.fingerprint,
        pl=place,
        p=job.priority,
        op=job.options,
        pa=job.parent,
        de=job.dependents,
        dd=deadline,
        tg=job.tags,
        fk=job.fair_key,
        hd=job.headers,
        di=_fraction(job.deadline_in),
    )
    due = time <= entered
    placed = place if due else str(time)
    blob = _packed(row).decode()
    return [job.id, blob, job.input, job.queue, job.task, due, placed, deadline or False]


def row_of(job_id: str, fields: list[Any]) -> StoredJob:
    """A row from its fields: those of :data:`FIELDS`, in their order."""
    blob, given, result, failures, progress = fields
    kept = _unpacked(blob)
    return StoredJob(
        JobRecord(
            id=job_id,
            task=kept.t,
            queue=kept.q,
            state=JobState(kept.s),
            priority=kept.p,
            run_at=moment(kept.ra),
            enqueued_at=moment(kept.ea),
            attempt=kept.a,
            deliveries=kept.dl,
            losses=kept.lo,
            redrives=kept.rd,
            group_id=kept.gr,
            input="" if given is None else given.decode(),
            options=kept.op,
            fingerprint=kept.fp,
            parent=kept.pa,
            dependents=kept.de,
            deadline=time_of(kept.dd),
            unique_key=kept.uk,
            tags=kept.tg,
            fair_key=kept.fk,
            headers=kept.hd,
            worker=kept.w,
            cancel_requested=kept.cr,
            started_at=time_of(kept.st),
            finished_at=time_of(kept.fi),
            expires_at=time_of(kept.ex),
            result=None if result is None else result.decode(),
            reason=kept.re,
            progress=None if progress is None else progress.decode(),
            failures=() if failures is None else _failures(failures),
        ),
        _terms(kept),
        kept.su,
        kept.al,
        blob,
    )


def _terms(kept: KeptJob) -> JobTerms:
    if not (kept.uk or kept.di is not None or kept.an or kept.gp):
        return PLAIN
    unique = None
    if kept.uk is not None:
        unique = UniqueClaim(
            key=kept.uk,
            policy=UniquePolicy(kept.up),
            states=tuple(JobState(each) for each in kept.us),
            period=_float(kept.ue),
        )
    return JobTerms(
        unique=unique,
        unique_until=time_of(kept.uu),
        deadline_in=_float(kept.di),
        announce=kept.an,
        policy=GroupPolicy(kept.gp) if kept.gp else GroupPolicy.SETTLE_ALL,
    )


def leased_job(job_id: str, blob: str, given: str) -> LeasedJob:
    """The job that a lease has handed out."""
    kept = _unpacked(blob)
    return LeasedJob(
        id=job_id,
        task=kept.t,
        queue=kept.q,
        input=given,
        worker=kept.w or "",
        deliveries=kept.dl,
        attempt=kept.a,
        options=kept.op,
        group_id=kept.gr,
        priority=kept.p,
        run_at=moment(kept.ra),
        enqueued_at=moment(kept.ea),
        losses=kept.lo,
        parent=kept.pa,
        dependents=kept.de,
        deadline=time_of(kept.dd),
        headers=kept.hd,
    )


def _fraction(number: float | None) -> str | None:
    return None if number is None else repr(number)


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)


def state_of(blob: bytes) -> JobState:
    """The state of a packed row."""
    return JobState(_unpacked(blob).s)


def hash_of(row: StoredJob, before: StoredJob | None) -> list[str]:
    """The fields of a job's hash that this row changes, flat. Raises StoreRejected."""
    try:
        fields = _hash_of(row, before)
        for each in fields:
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
    return IndexEntry(keys.READY + lane, place_of(job))


def waiting_entries(job: JobRecord) -> tuple[IndexEntry, IndexEntry]:
    """Both places in which a stored job may wait: a lease may have made it ready since."""
    lane = keys.pair(job.queue, job.task)
    return IndexEntry(keys.READY + lane, place_of(job)), IndexEntry(keys.SCHEDULED + lane, job.id)
