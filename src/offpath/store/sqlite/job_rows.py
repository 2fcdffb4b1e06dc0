"""New jobs as rows, without I/O: what a batch of them has in common is bound once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from offpath.model.job import BlockReason, JobState, NewJob, UniqueClaim
from offpath.store.programs.instants import micros
from offpath.store.sql import Query
from offpath.store.sqlite.parameters import batch, later, span, texts
from offpath.store.sqlite.session import SQL

# Those first that differ from job to job: each is found by walking past the ones before it.
COLUMNS: Final = (
    "id",
    "input",
    "fingerprint",
    "limit_key",
    "fair_key",
    "unique_key",
    "unique_slot",
    "unique_states",
    "unique_until",
    "run_at",
    "group_id",
    "task",
    "queue",
    "state",
    "priority",
    "parent",
    "deadline",
    "deadline_in",
    "dependents",
    "tags",
    "options",
    "announce",
    "reason",
    "gate",
    "gated_delay",
    "blocked_until",
    "watched",
    "headers",
)
ID: Final = COLUMNS.index("id")
FINGERPRINT: Final = COLUMNS.index("fingerprint")
KEY: Final = COLUMNS.index("unique_key")
RUN_AT: Final = COLUMNS.index("run_at")
STATE: Final = COLUMNS.index("state")
_GATE: Final = COLUMNS.index("gate")
"""Places in a row."""

NewRow: TypeAlias = tuple[Any, ...]
"""A job as kept; its group is None where it is a root."""

_INNER: Final = {
    state: "scheduled,ready" if state is JobState.QUEUED else state.value for state in JobState
}
"""States as they are kept: queued is two of them."""

_BLOCKED: Final = JobState.BLOCKED.value
_NO_KEY: Final = (None, None, None, None)
_NO_WAIT: Final = (None, None, None, None)


# -- statements ------------------------------------------------------------------------------------


def insert_one(row: NewRow, now: int) -> Query:
    """The statement that inserts one row."""
    _refuse_what_json_cannot_hold(row)
    return SQL["enqueue_one"](**dict(zip(COLUMNS, row, strict=True)), now=now)


def inserts(rows: Sequence[NewRow], now: int) -> list[Query]:
    """The statements that insert these rows.

    Rows go in by time and id, as they will be leased: then the neighbours of later batches are
    neighbours in the file. Those at gates go apart, since they have little in common with others.
    Where it matters who is first, since two may have one unique key or id, the order stays.
    """
    if any(row[KEY] is not None for row in rows) or len({row[ID] for row in rows}) < len(rows):
        return [_insert(rows, now)]
    kinds: tuple[list[NewRow], list[NewRow]] = ([], [])
    for row in sorted(rows, key=itemgetter(RUN_AT, ID)):
        kinds[row[_GATE] is not None].append(row)
    return [_insert(some, now) for some in kinds if some]


def _insert(rows: Sequence[NewRow], now: int) -> Query:
    """Bit n of ``common``: every row has the same in column n, and it is not sent with each."""
    shared: dict[str, Any] = {}
    common = 0
    sent: list[Iterable[Any]] = []
    nothing = (None,) * len(rows)
    for place, (name, values) in enumerate(zip(COLUMNS, zip(*rows, strict=True), strict=True)):
        alike = place != ID and _alike(values)
        shared[name] = values[0] if alike else None
        common |= alike << place
        sent.append(nothing if alike else values)
    # It ends at the id at the latest, which is never taken as alike.
    while sent[-1] is nothing:
        sent.pop()
    _refuse_what_json_cannot_hold(shared.values())
    del shared["id"]
    packed = batch(list(zip(*sent, strict=True)))
    return SQL["enqueue"](batch=packed, common=common, now=now, **shared)


def _alike(values: tuple[Any, ...]) -> bool:
    first = values[0]
    return bool(values[-1] == first) and values.count(first) == len(values)


def _refuse_what_json_cannot_hold(values: Iterable[Any]) -> None:
    """One job is refused for what would be refused among others."""
    if any("\0" in value for value in values if isinstance(value, str)):
        batch([[value] for value in values])


# -- rows ------------------------------------------------------------------------------------------


def row_of(
    job: NewJob, now: int, gates: Mapping[str, int | None], watched: Collection[str]
) -> NewRow:
    """A new job as kept. ``gates`` are the deadlines of gates; ``watched`` are ids."""
    run_at = later(now, job.delay) if job.run_at is None else micros(job.run_at)
    deadline = _deadline(job, now)
    waits = job.gate is not None or job.limit is not None
    return (
        job.id,
        job.input,
        job.fingerprint,
        None if job.limit is None else job.limit.key,
        job.fair_key or None,
        *(_NO_KEY if job.unique is None else _key_columns(job, job.unique, now)),
        run_at,
        job.group_id,
        job.task,
        job.queue,
        "scheduled" if run_at > now and job.gate is None else _BLOCKED if waits else "ready",
        job.priority,
        job.parent,
        deadline,
        span(job.deadline_in),
        texts(job.dependents),
        texts(job.tags),
        job.options,
        job.announce,
        *(_wait_columns(job, run_at <= now, deadline, gates) if waits else _NO_WAIT),
        int(job.id in watched),
        job.headers,
    )


def _wait_columns(
    job: NewJob, due: bool, deadline: int | None, gates: Mapping[str, int | None]
) -> tuple[Any, ...]:
    """Reason, gate, the delay that counts from its release, and when the wait is over."""
    if job.gate is None:
        return (BlockReason.LIMIT.value, None, None, deadline) if due else _NO_WAIT
    ends = [at for at in (deadline, gates.get(job.gate)) if at is not None]
    delay = span(job.delay) if job.run_at is None else None
    return BlockReason.GATE.value, job.gate, delay, min(ends, default=None)


def _deadline(job: NewJob, now: int) -> int | None:
    """At a gate, one that counts from now counts from the release."""
    if job.deadline is not None:
        return micros(job.deadline)
    return None if job.deadline_in is None or job.gate is not None else later(now, job.deadline_in)


def _key_columns(
    job: NewJob, unique: UniqueClaim, now: int
) -> tuple[str, str | None, str, int | None]:
    """Key, slot, states and end of the period."""
    held = (JobState.QUEUED if job.gate is None else JobState.BLOCKED) in unique.states
    until = None if unique.period is None else later(now, unique.period)
    states = ",".join(_INNER[state] for state in unique.states)
    return unique.key, unique.key if held else None, states, until
