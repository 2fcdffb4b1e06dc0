"""Jobs of workers that are gone: given back, or ended where their workers died too often."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from offpath.model.job import DeadReason, Failure, JobState, LeasedJob
from offpath.model.lease import Rescued, loss_text
from offpath.model.suspicion import Lost, judged
from offpath.store.hints import Hint
from offpath.store.programs.aftermath import KEPT_FAILURES, Aftermath, End, FailedAttempt
from offpath.store.programs.answers import STATES, OrphanRow
from offpath.store.programs.conclusion import conclude
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.programs.leased import LEASED, WIDTH
from offpath.store.sql import Query, Row

Spared = Callable[[Dialect], Steps[Collection[str]]]
"""The workers that keep their jobs although their leases have ended, since their processes run."""


class _Fate(msgspec.Struct):
    """The fate of an orphan, as ``rescue`` takes it."""

    id: str
    state: str
    reason: str | None
    ended: int
    begun: int
    suspected: str | None


class _Orphan(NamedTuple):
    """A job that its worker has left, and what becomes of it."""

    job: LeasedJob
    state: JobState
    row: OrphanRow
    fate: _Fate

    @property
    def end(self) -> End:
        """The end that it has come to."""
        job, row = self.job, self.row
        return End(job.id, job.group_id, bool(row.grouped), bool(row.watched), row.redrives)


def rescue(
    d: Dialect, *, limit: int, max_deliveries: int, keep: float | None, spared: Spared
) -> Steps[list[Rescued]]:
    """Take jobs from workers that are gone, and note which workers hold nothing more."""
    if d.stalled:  # the living could not renew their leases either: let them first
        return []
    kept = yield from spared(d)
    rows = yield from ask(d.sql["orphans"](limit=limit, kept=d.batch(sorted(kept)), now=d.now))
    orphans = [_orphan(row, max_deliveries) for row in rows]
    if orphans:
        yield from _move_on(d, orphans, keep)
    # Behind the jobs: a worker counts as gone when it holds nothing, so a pass that was cut comes
    # back.
    yield from ask(d.sql["note_gone_workers"](now=d.now))
    if not orphans:
        return []
    ended = [orphan.end for orphan in orphans if orphan.state.terminal]
    given_back = [
        orphan.job.limit_key
        for orphan in orphans
        if not orphan.state.terminal and orphan.job.limit_key is not None
    ]
    # Last, since it writes rows of gates, limits and groups, behind which no job is waited for.
    after = yield from conclude(d, ended, keep, given_back=given_back)
    answers = [_rescued(orphan, after) for orphan in orphans]
    d.announced.hear(orphan.row.announce for orphan in orphans)
    d.announced.moved.update(answer.state for answer in answers)
    d.announced.tell(Hint.WORK)  # what ends gives its key and its room to others
    return answers


def _orphan(row: Row, max_deliveries: int) -> _Orphan:
    columns = tuple(row)
    job, orphan = LEASED.one(columns[:WIDTH]), OrphanRow._make(columns[WIDTH:])
    begun = bool(orphan.begun)
    lost = Lost(
        job.losses,
        begun=begun,
        alone=bool(orphan.alone),
        out_of_touch=bool(orphan.out_of_touch),
    )
    verdict = judged(lost, max_deliveries)
    state, reason = "ready", None
    # Its end was asked for: how often its workers died does not matter any more.
    if orphan.cancel_requested:
        state, reason = "cancelled", "cancelled"
    elif verdict.dead:
        state, reason = "dead", DeadReason.WORKER_LOST.value
    # A crash is named after the worker that it took. Other suspects stay with the crash of before.
    suspected = job.worker if verdict.suspect else orphan.crash
    fate = _Fate(job.id, state, reason, int(state != "ready"), int(begun), suspected)
    return _Orphan(replace(job, losses=verdict.losses), STATES[state], orphan, fate)


def _move_on(d: Dialect, orphans: Sequence[_Orphan], keep: float | None) -> Steps[None]:
    """Write what becomes of them, and why those died that did."""
    telling = _telling(d, orphans)
    if telling and d.failures_first:
        yield Send(telling)
    # In SQLite one statement looks at each job as if it were alone, and passes over all but the
    # first of those that would take one unique key: run again, they see who has it.
    left = [orphan.fate for orphan in orphans]
    while left:
        query = d.sql["rescue"](batch=d.batch(left), keep=d.span(keep), now=d.now)
        *_, moved = yield Send((*d.told_the_time(), query))
        known = {job for (job,) in moved}
        # Where nothing moved, nothing would the next time: so the loop ends.
        left = [fate for fate in left if fate.id not in known] if known else []
    if telling and not d.failures_first:
        yield Send(telling)
    if clearing := _clearing(d, orphans):
        yield Send(clearing)


def _clearing(d: Dialect, orphans: Sequence[_Orphan]) -> tuple[Query, ...]:
    """Suspects that were not in the half that crashed again are cleared."""
    # A suspect that had not begun proves nothing about its crash.
    crashes = sorted({one.row.crash for one in orphans if one.row.crash and one.row.begun})
    return (d.sql["clear_suspects"](crashes=d.batch(crashes)),) if crashes else ()


def _telling(d: Dialect, orphans: Sequence[_Orphan]) -> tuple[Query, ...]:
    """The failures of those that died."""
    dead = [orphan for orphan in orphans if orphan.state is JobState.DEAD]
    if not dead:
        return ()
    batch = [FailedAttempt(one.job.id, one.job.deliveries, _worker_lost(one)) for one in dead]
    ids = d.ids(one.job.id for one in dead)
    return (
        d.sql["add_failures"](batch=d.batch(batch), now=d.now),
        d.sql["trim_failures"](ids=ids, keep=KEPT_FAILURES),
    )


def _worker_lost(orphan: _Orphan) -> Failure:
    job = orphan.job
    return Failure(
        kind="worker_lost",
        type="WorkerLost",
        message=loss_text(job.losses, job.worker, ended=bool(orphan.row.worker_ended)),
        attempt=job.attempt,
        worker=job.worker,
    )


def _rescued(orphan: _Orphan, after: Aftermath) -> Rescued:
    job = orphan.job
    return Rescued(
        job=job,
        state=JobState.BLOCKED if job.id in after.held else orphan.state,
        group_done=job.id in after.done,
        along=after.along(job.id),
    )
