"""The store: one transaction domain, whose write methods are whole transitions.

Rules for every method

* It either happens wholly or not at all. A raised error means nothing was written, except
  :class:`~offpath.errors.StoreUnavailable`, which means *unknown*: repeating the call with the
  same values changes nothing twice.
* Every list is limited. Rows are locked in the order of ``docs/architecture.md``.
* Writes by a holder carry the fence ``(id, worker, deliveries)``; a stale one writes nothing.
* The store applies, it never decides: whether to retry, when, and with which reason are values
  handed over. It evaluates only what needs the row lock: fences, uniqueness, counters.
* Time is the store's clock: the database's own, or the injected one when the store was made
  with ``clock=`` (memory, SQLite and tests).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from msgspec import Struct

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob, Pruned
from offpath.model.effects import Effects
from offpath.model.glance import Concern
from offpath.model.job import Count, Enqueued, JobFilter, JobRecord, JobState, LeasedJob, Page
from offpath.model.lease import (
    Leased,
    LeaseRequest,
    Renewed,
    Rescued,
    WorkerAnswer,
    WorkerAsk,
    WorkerDesk,
    WorkerInfo,
    WorkerRecord,
)
from offpath.model.settlement import Settled, Settlement
from offpath.store.actions import ActionStore
from offpath.store.browse import BrowseStore
from offpath.store.capabilities import Capabilities
from offpath.store.events import EventStore
from offpath.store.flow import FlowStore
from offpath.store.health import DeclarationStore, FindingStore, HealthStore
from offpath.store.hints import Hint
from offpath.store.ledger import LedgerStore
from offpath.store.schedules import ScheduleStore
from offpath.store.stats import StatStore
from offpath.store.workflows import WorkflowStore


class JobRedrive(Struct, frozen=True, kw_only=True):
    """Put one job back: ``delay`` seconds from now, as fresh."""

    id: str
    delay: float = 0.0
    past_gate: bool = False
    """It does not wait at its gate again: it works with what there is."""


class Backlog(Struct, frozen=True, kw_only=True):
    """Due work of one queue and task."""

    queue: str
    task: str
    ready: int
    """The number that is due, counted up to the limit asked for."""
    oldest_run_at: datetime
    """The time when the longest-waiting became due."""


class Migration(Struct, frozen=True, kw_only=True):
    """One schema step: ``applied_at`` is None while it is pending."""

    number: int
    name: str
    checksum: str
    applied_at: datetime | None = None


MOST_ON_A_PAGE: Final = 1000
"""Jobs on one page of :meth:`Store.find`, whatever was asked for."""


class Level(StrEnum):
    """The weight of a finding."""

    PROBLEM = "problem"
    """Something is wrong now."""
    WARNING = "warning"
    """Something will be wrong, or is unusual."""
    FINE = "fine"


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was checked, and what to do about it if need be."""

    name: str
    level: Level
    message: str


class Store(
    EventStore,
    ScheduleStore,
    WorkflowStore,
    FlowStore,
    LedgerStore,
    DeclarationStore,
    ActionStore,
    StatStore,
    BrowseStore,
    FindingStore,
    HealthStore,
    Protocol,
):
    """One backend. All methods may be called concurrently from one event loop."""

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        ...

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect and check the schema (a self-migrating backend makes it).

        Raises :class:`~offpath.errors.SchemaError` kinds and ``StoreUnavailable``. Repeating it
        on an open store does nothing.
        """
        ...

    async def close(self) -> None:
        """Release every connection, thread and file. Idempotent; safe after a failed open."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply pending migrations under a lock; returns those applied by this call.

        Any number of processes may call it at once: each migration runs exactly once. Works on a
        store that is not open.
        """
        ...

    async def migrations(self) -> list[Migration]:
        """Every known migration, applied or pending, oldest first. Writes nothing."""
        ...

    def migration_script(self, *, after: int = 0) -> str:
        """The schema steps after number ``after`` as SQL, to be run by hand.

        Raises ``CapabilityMissing`` where there is no schema.
        """
        ...

    async def diagnose(self) -> list[Finding]:
        """The findings of this backend about its own state: settings, versions, impossible rows.

        Reads only, bounded, and safe on a busy store.
        """
        ...

    async def ping(self) -> datetime:
        """Ask the store for its clock: proves that it answers."""
        ...

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call ``callback`` in the event loop when something may have changed, here or elsewhere.

        A hint only: it may be late, doubled or missing. Returns the function that ends it.
        """
        ...

    # -- doors: new work -------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write all effects in one commit; the answers are in the order of ``effects.jobs``, then
        of ``effects.messages``. Events of the log get no answer.

        *Messages*: one whose id exists, or (inbox) whose source and key exist, is left as it is
        and answered ``created=False`` with the id that the store has. *Repeat*: a job whose id
        exists with the same fingerprint is left as it is (``created=False``), in whatever state,
        also after it ended. Another fingerprint raises ``IdConflict``. *Unique*: when the key is
        held by a job in scope, ``attach`` answers with the holder (another fingerprint raises
        ``UniqueConflict``), ``replace`` rewrites a waiting holder in place and answers with its id
        (a running one raises), ``refuse`` raises. A holder that has left its scope (state, period)
        loses the key to the new job. A job never conflicts with itself. Jobs that are
        due are ready at once.

        *Groups*: a job that names a group is counted in it, and so is a root that comes after its
        members. A root with policy ``fail_fast`` has a group row from the start. *Gates*: a job
        that names a gate is blocked (reason ``gate``) until the gate fires, its ``delay`` and
        ``deadline_in`` count from then; watched jobs that have ended already count at once, so a
        gate may fire or end as it is made; a job that dies of that is told by the ``along`` of its
        answer. The id of a job that attaches in the same effects means
        its holder. An id of ``on`` that is neither stored nor new raises
        ``GateError`` unless the gate has a timeout. A gate whose id exists is left as it is.
        *Limits*: a job with a limit is blocked (reason ``limit``) until it is admitted, without a
        lock on its key; a gated or scheduled one comes to that when it is released or due.
        *Contributions* are refused (``InvalidArgument``): they belong to a settlement.
        *Operations* of the ledger are decided last, as by :meth:`post`; one that is declined or
        faulty raises (``LedgerError``) and nothing at all is written.
        """
        ...

    async def commit_within(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """Commit as :meth:`commit` does, but inside the caller's transaction, on the caller's
        connection.

        Rows appear when the caller commits and vanish when it rolls back. Accepts what
        ``store/within.py`` lists; anything else raises ``WrongConnection`` before a statement is
        sent. Backends without the capability ``within`` raise ``CapabilityMissing``. Where it
        raises, nothing of the effects is left in the transaction (unless the database has ended
        that): a caller who goes on and commits does not commit half of them.
        """
        ...

    def commit_within_blocking(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """Commit as :meth:`commit_within` does, for a blocking connection, without an event
        loop.
        """
        ...

    async def get_within(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401
        """The jobs of these ids that exist, as the caller's transaction sees them: those that it
        has enqueued itself too. Raises as :meth:`commit_within` does; writes nothing.
        """
        ...

    def get_within_blocking(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401
        """Read as :meth:`get_within` does, for a blocking connection, without an event loop."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End attempts, each with its effects, in one commit if all can be stored.

        Per settlement: the fence must hold (else ``LEASE_LOST`` and nothing of it is written).
        When the job's cancellation was asked for, any outcome becomes ``cancelled`` and its
        effects are dropped. One that the store cannot take (``UniqueConflict``, a refused value)
        is answered ``REFUSED`` with its error and holds back none of the others. Children join
        the job's group. The unique key is given up when the new state leaves its scope. A
        ``Retry``, ``Dead`` or failing ``Cancelled`` adds its failure to the job's history. The
        group is counted down when the job ends; ``group_done`` is true for exactly one settlement
        of a group, and not again when a redriven member ends. Repeating a settlement that was
        applied answers ``LEASE_LOST``.

        *Group value*: contributions, and the result of a ``Succeeded`` that contributes, are
        written under the group's lock in the order of the settlements: the last wins, a final one
        locks, a fold is given the value so far, a result of None contributes nothing. A fold that
        raises makes its settlement ``REFUSED``. A member that ends dead or cancelled counts as
        failed; redriving it takes that back, and ends the closing of its group. *Gates*: a watched
        job that ends is counted in its gates, each that now fires releases its jobs, each that
        cannot fire any more ends its jobs as dead with reason ``unsatisfiable`` and so on along
        the chain, all in this commit; ``along`` has those that died so. *Waiting*: blocked with
        reason ``signal``; queued at once when the signal is there already (no signal is missed
        between the two). *Limits*: a job that leaves ready or running gives its room back in this
        commit, and the key's next jobs are admitted right after it; a released one keeps its room.
        *Operations* of the ledger are decided in the order of the settlements, after everything
        else; one that is declined or faulty makes its settlement ``REFUSED``.
        """
        ...

    # -- jobs --------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs: due, not held, of a task asked for and with room, best first.

        Order within a queue: priority (higher first), then ``run_at``, then id, over its whole
        backlog; a task or queue without room and a paused queue are not looked at, so nothing
        starves behind them. ``request.order`` may ask for another one. Between queues: by the
        place in the queue plus what the request says was ``served`` of it, then as within one, so
        that a flood on one queue never starves another. Each job handed out is
        running, ``deliveries`` + 1, and nobody else gets it until it is settled or rescued. Due
        scheduled jobs are promoted (in bounded batches) before. A worker that is not registered,
        or whose lease has expired, gets nothing: what it took would be rescued at once.

        A suspect (:mod:`offpath.model.suspicion`) is handed out only for a request of
        ``suspects_only``: some of one crash, to a worker that holds no suspect yet. They are
        reserved: :meth:`begin` says when they run. With a limit of 0 ``more`` tells whether there
        are any.
        """
        ...

    async def begin(self, jobs: Sequence[LeasedJob]) -> set[str]:
        """Reserved suspects run from now on: their losses count. Returns the ids of those that are
        still their worker's; the others are not to be run. Repeating it changes nothing.
        """
        ...

    async def progress(self, job: LeasedJob, progress: str) -> None:
        """Record how far a held job is. Raises ``LeaseLost`` when the fence does not hold."""
        ...

    async def cancel(self, ids: Sequence[str], *, keep: float | None = None) -> list[ChangedJob]:
        """Cancel: waiting jobs end at once, running ones are marked and told by their worker.

        Ended and unknown jobs are left alone and not answered. Jobs that died at gates because of
        it are answered too, behind the others. Repeating it changes nothing.
        """
        ...

    async def redrive(self, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
        """Put dead or cancelled jobs back as fresh: queued, attempt 1, losses 0, a fresh deadline
        (same relative limit; an absolute one is dropped), ``redrives`` + 1; failures are kept.

        A waiting job is made due (after ``delay``) with its attempt unchanged. Others, unknown
        ones and those whose unique key is now held by another job are left alone, not answered.

        *Gates*: a job that never came past its gate waits there again, without its deadline, unless
        the gate has fired, was timed out, or ``past_gate`` is asked for. A gate that cannot fire is
        counted afresh by what the jobs that it watches are now: where it can fire again it is open,
        with as much time as it had at first, and the jobs that died at it wait there again, and so
        on along the chain; these are answered too, behind the others. Where it still cannot, its
        jobs are left alone. A watched job that was deleted counts as it had been counted, and as
        failed if it had not.
        """
        ...

    async def amend(self, ids: Sequence[str], amendment: Amendment) -> list[ChangedJob]:
        """Give waiting jobs other terms, each in its place from then on; unique keys stay.

        A blocked job takes a priority and a deadline, one that waits for a signal a priority alone.
        What cannot take all of it is left alone and not answered. Repeating it changes nothing.
        """
        ...

    async def delete(self, ids: Sequence[str]) -> list[ChangedJob]:
        """Remove ended jobs, with their history. Others are left alone and not answered."""
        ...

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take running jobs from workers whose lease has expired or whose row is gone.

        Where presence is a lock, a worker of another process that holds it, and is not seen to be
        stopped, keeps them for ``SILENCE`` leases since its last renewal: it lives, and a call that
        holds the interpreter's lock lets it renew nothing.

        The job is ready again with its attempt and run time unchanged, and ``losses`` + 1 if it had
        begun; from ``max_deliveries`` - 1 losses on it is a suspect and runs apart. One that ran
        alone as its last loss came is dead with reason ``worker_lost`` and a failure in its
        history; cancelled when that had been asked for. Where the worker only fell out of touch,
        ten times as many losses are allowed. With ``max_deliveries`` 1 the first loss is the last.
        Workers that are late and hold nothing more are gone from then on. At most ``limit`` jobs a
        call.
        """
        ...

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:
        """The passes that may find something now, by one cheap look.

        A pass that is not named would find nothing. A store that cannot tell names all. Without
        ``work`` nobody looks for jobs that are ready, and ``WORK`` is named: who leases all the
        time need not be told, and where a vacuum is behind that look is a long one.
        """
        ...

    async def notice_deaths(self) -> list[str]:
        """Expire workers whose death can be seen (capability ``presence``); returns their ids.

        The leases of cursors, messages and claims that they hold end as well: those whose holder is
        the worker's id, or begins with it and a slash.

        A connection must be missing in two calls, ``APART`` seconds apart, and not shortly after
        the server started or ours was cut. A lock that the system frees with its process is proof.
        """
        ...

    async def prune(self, *, limit: int) -> Pruned:
        """Remove up to ``limit`` ended jobs whose ``keep`` has passed, as many messages, expired
        claims, workers gone for an hour, and what belongs to them; returns how many jobs and
        messages.
        """
        ...

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that exist, in no particular order, with their failures."""
        ...

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of these ids; unknown ids are absent. Cheap enough to poll."""
        ...

    async def find(
        self, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
    ) -> Page:
        """Jobs that match, ordered by id (newest first by default), one page: at most 1,000.

        ``failures`` holds only the last one here. ``after`` is the ``next`` of the page before.
        """
        ...

    async def count(self, where: JobFilter) -> list[Count]:
        """The number of jobs that match, by state, queue and task."""
        ...

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task, each counted up to ``limit``."""
        ...

    # -- workers -----------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker; its lease runs from now. Takes its presence where there is one.

        Returns whether its death can be seen early. Repeating it renews the lease.
        """
        ...

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Renewed:
        """The heartbeat: one write that keeps every job of this worker leased.

        ``report`` is what the worker says of its own health, for whoever looks at the fleet; None
        leaves the last one.

        Registers the worker anew if its row is gone. Tells which held jobs were asked to be
        cancelled and which are no longer its own.
        """
        ...

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker of this process whose event loop is blocked.

        Called in a thread, and waits in it: by a way that neither the loop nor its executor is
        needed for. Returns whether the worker is known and not gone; registers nobody. Raises as
        :meth:`extend` does.
        """
        ...

    def cut_off(self) -> bool:
        """True if nobody sees this process live, and its loop cannot know it. Asked in a thread."""

    async def signals(self, worker: str, held: Sequence[LeasedJob]) -> Renewed:
        """The answer of :meth:`extend` without a renewal: a cheap read for prompt cancels."""
        ...

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that the store says this worker holds, at most 1,000.

        For a worker whose lease went unanswered: what it does not know of was handed out in that
        answer, and nobody else would ever run it while this worker lives.
        """
        ...

    async def deregister(self, worker: str) -> None:
        """A worker has stopped. Jobs it still holds become due for rescue at once. Its record is
        kept as gone for an hour, and removed by :meth:`prune`.
        """
        ...

    async def workers(self) -> list[WorkerRecord]:
        """Every worker, oldest first (at most 10,000), those that are gone included."""
        ...

    async def ask_worker(self, worker: str, ask: WorkerAsk) -> bool:
        """Ask something of a live worker: it hears of it with its next heartbeat or look.

        False: it is unknown or gone, or has :data:`~offpath.model.lease.MOST_ASKED` requests that
        it has not answered. Asking again by the same id changes nothing.
        """
        ...

    async def answer_worker(self, worker: str, answer: WorkerAnswer) -> bool:
        """Note that a worker has carried a request out; the last answer is kept with the worker.

        False, and nothing is written, when no such request waits.
        """
        ...

    async def worker_desk(self, worker: str) -> WorkerDesk | None:
        """The requests and the last answer of a worker; None for an unknown one."""
        ...

    # -- singletons ----------------------------------------------------------------------------

    async def claim(
        self, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
    ) -> bool:
        """Claim a name once in the fleet; True for the holder, however often it asks.

        ``ttl`` seconds after the first claim it is free again; None keeps it for good. With
        ``renew`` they count from this call.
        """
        ...

    async def release_claim(self, key: str, holder: str) -> bool:
        """Give a name back: anybody may claim it from now on. False: it was not this holder's."""
        ...
