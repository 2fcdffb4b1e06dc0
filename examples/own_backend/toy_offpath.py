"""A store of jobs in one file of JSON: `core` of the contract, and nothing else."""

import fcntl
import os
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from offpath.errors import CapabilityMissing, Conflict, InvalidArgument, StoreRejected
from offpath.model.job import DeadReason, Enqueued, JobRecord, JobState
from offpath.model.lease import Leased, Rescued, WorkerRecord
from offpath.model.settlement import Settled, SettleStatus, Snoozed, Succeeded
from offpath.runtime.clock import SystemClock
from offpath.store.capabilities import Capabilities, Durability, Profile
from offpath.store.partial import PartialStore, refuse_absent, refuse_outcome
from offpath.store.protocol import Pruned
from offpath.store.refusals import not_held, not_registered, refuse_waiting
from offpath.store.rows import choice, jobs, looks, workers
from offpath.store.rows.instants import later, maybe_later

CAPABILITIES = Capabilities(
    name="toy",
    durability=Durability.FSYNC,  # a change is on the disk when it returns
    shared=True,  # several processes can use it at once
    presence=False,  # a worker's death is not seen before its lease ends
    pushes=False,  # others' work is found by polling
    self_migrating=True,  # the file is made on opening
    profiles=frozenset({Profile.CORE}),
)


class Tables(msgspec.Struct):
    """Everything that is kept."""

    jobs: dict[str, JobRecord] = {}
    workers: dict[str, WorkerRecord] = {}
    claims: dict[str, tuple[str, datetime | None]] = {}
    deadlines: dict[str, float] = {}  # seconds, for a job that is put back
    done: set[str] = set()  # groups whose end was told

    def alive(self, worker, now):
        return worker in self.workers and self.workers[worker].expires_at > now

    def held(self, job):
        """The record of a leased job, if that lease still holds."""
        known = self.jobs.get(job.id)
        return known if known and jobs.holds(known, job) else None

    def of(self, ids):
        return [self.jobs[one] for one in sorted(set(ids)) if one in self.jobs]

    def file(self, job):
        """Keep a record; True if it was the last open one of its group, and that was not told."""
        before, self.jobs[job.id] = self.jobs.get(job.id), job
        group = [one for one in self.jobs.values() if one.group_id == job.group_id]
        ends = before and not before.state.terminal and all(one.state.terminal for one in group)
        if not ends or job.group_id in self.done:
            return False
        self.done.add(job.group_id)
        return True

    def add(self, new, now, group=None):
        """A new job; the same one again changes nothing."""
        if known := self.jobs.get(new.id):
            return jobs.repeated(new, known)
        if new.deadline_in is not None:
            self.deadlines[new.id] = new.deadline_in
        self.file(made := jobs.enqueued(new, now, new.group_id or group or new.id))
        return Enqueued(id=new.id, job_id=new.id, created=True, run_at=made.run_at)

    def hand_out(self, job, worker, now):
        self.file(after := jobs.handed_out(job, worker, now))
        return jobs.leased(after)

    def drop(self, gone):
        for job in gone:
            del self.jobs[job.id]
            self.deadlines.pop(job.id, None)


class ToyStore(PartialStore):
    """Each method is one change, or one look."""

    capabilities = CAPABILITIES

    def __init__(self, url, *, clock=None, call_timeout=5.0):
        self.path = Path(url.partition("://")[2])
        self.clock = clock or SystemClock()

    @contextmanager
    def change(self):
        """The tables and the time. What raises inside leaves the file as it was."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # whoever else writes waits here
            tables = self.look()
            yield tables, self.clock.now()
            with self.path.with_suffix(".new").open("wb") as new:
                new.write(msgspec.json.encode(tables))
                new.flush()
                os.fsync(new.fileno())
            self.path.with_suffix(".new").replace(self.path)

    def look(self):
        return msgspec.json.decode(self.path.read_bytes(), type=Tables)

    async def open(self):
        if not self.path.exists():
            self.path.write_bytes(msgspec.json.encode(Tables()))

    async def ping(self):
        return self.clock.now()

    # -- new work, and its end -------------------------------------------------------------

    async def commit(self, effects):
        refuse_absent(CAPABILITIES, effects)
        with self.change() as (tables, now):
            return [tables.add(new, now) for new in effects.jobs]

    async def start(self, job, worker):
        refuse_waiting(job)
        with self.change() as (tables, now):
            if not tables.alive(worker, now):
                raise not_registered(worker)
            created = tables.add(job, now).created
            return tables.hand_out(tables.jobs[job.id], worker, now) if created else None

    async def lease(self, request):
        with self.change() as (tables, now):
            if request.suspects_only or not tables.alive(request.worker, now):
                return Leased(jobs=(), now=now)
            best, more, due_in = choice.chosen(tables.jobs.values(), request, now)
            taken = tuple(tables.hand_out(job, request.worker, now) for job in best)
            return Leased(jobs=taken, now=now, more=more, due_in=due_in)

    async def settle(self, settlements):
        answers = []
        for one in settlements:  # each is a change of its own: a refused one stops no other
            try:
                with self.change() as (tables, now):
                    answers.append(settled(tables, one, now))
            except (CapabilityMissing, Conflict, InvalidArgument, StoreRejected) as error:
                answers.append(Settled(id=one.job.id, status=SettleStatus.REFUSED, error=error))
        return answers

    # -- jobs that are there ---------------------------------------------------------------

    async def progress(self, job, progress):
        with self.change() as (tables, _):
            if (known := tables.held(job)) is None:
                raise not_held(job.id)
            tables.file(replace(known, progress=progress))

    def each(self, ids, step):
        """Take a step with each of these jobs; a step to None leaves its job alone."""
        with self.change() as (tables, now):
            pairs = [(job, step(tables, job, now)) for job in tables.of(ids)]
            moved = [(job, after) for job, after in pairs if after is not None]
            return [jobs.changed(job, new, group_done=tables.file(new)) for job, new in moved]

    async def cancel(self, ids, *, keep=None):
        return self.each(ids, lambda _, job, now: jobs.stopped(job, now, maybe_later(now, keep)))

    async def redrive(self, redrives):
        delays = {one.id: one.delay for one in redrives}

        def step(tables, job, now):
            due, deadline = later(now, delays[job.id]), tables.deadlines.get(job.id)
            if job.state is JobState.QUEUED:
                return replace(job, run_at=due, reason=None)
            ended = job.state in {JobState.DEAD, JobState.CANCELLED}
            return jobs.fresh(job, due, maybe_later(now, deadline), now) if ended else None

        return self.each(delays, step)

    async def amend(self, ids, amendment):
        def step(_, job, __):
            return jobs.amended(job, amendment) if amendment.fits(job) else None

        return self.each(ids, step)

    async def expire_blocked(self, *, limit, keep=None):
        over = DeadReason.DEADLINE

        def step(_, job, now):
            late = job.state is JobState.QUEUED and job.deadline and job.deadline <= now
            return jobs.given_up(job, over, now, maybe_later(now, keep)) if late else None

        return self.each(self.look().jobs, step)

    async def delete(self, ids):
        with self.change() as (tables, _):
            ended = [job for job in tables.of(ids) if job.state.terminal]
            tables.drop(ended)
            return [jobs.changed(job, job) for job in ended]

    async def rescue(self, *, limit, max_deliveries, keep=None):
        with self.change() as (tables, now):
            held = [job for job in tables.jobs.values() if job.state is JobState.RUNNING]
            lost = [job for job in held if not tables.alive(job.worker, now)][:limit]
            return [rescued(tables, job, max_deliveries, keep, now) for job in lost]

    async def prune(self, *, limit):
        with self.change() as (tables, now):
            kept = [job for job in tables.jobs.values() if job.expires_at]
            over = [job for job in kept if job.expires_at <= now][:limit]
            tables.drop(over)
            return Pruned(jobs=len(over), messages=0)

    # -- looking: the rest follows from these ----------------------------------------------

    async def get(self, ids):
        known = self.look().jobs
        return [known[one] for one in dict.fromkeys(ids) if one in known]

    async def find(self, where, *, limit=100, after=None, newest=True):
        return looks.page(self.look().jobs, where, limit, after, newest=newest)

    # -- workers and names -----------------------------------------------------------------

    async def renew(self, worker, seconds, report):
        with self.change() as (tables, now):
            known = tables.workers.get(worker.id)
            tables.workers[worker.id] = workers.registered(known, worker, now, seconds, report)

    async def deregister(self, worker):
        with self.change() as (tables, now):
            if known := tables.workers.get(worker):
                tables.workers[worker] = workers.left(known, now)

    async def workers(self):
        tables, now = self.look(), self.clock.now()
        holders = [job.worker for job in tables.jobs.values()]
        return [workers.seen(one, now, holders.count(name)) for name, one in tables.workers.items()]

    async def claim(self, key, holder, *, ttl=None, renew=False):
        with self.change() as (tables, now):
            owner, until = tables.claims.get(key, (None, now))
            free = until is not None and until <= now
            if free or (owner == holder and renew):
                tables.claims[key] = holder, maybe_later(now, ttl)
            return free or owner == holder

    async def release_claim(self, key, holder):
        with self.change() as (tables, _):
            mine = tables.claims.get(key, (None,))[0] == holder
            return mine and bool(tables.claims.pop(key))


def settled(tables, one, now):
    """The end of one attempt, with the jobs that it queued."""
    if (job := tables.held(one.job)) is None:
        return Settled(id=one.job.id, status=SettleStatus.LEASE_LOST)
    refuse_outcome(CAPABILITIES, one.outcome)
    after, enqueued = jobs.settled(job, one.outcome, now, maybe_later(now, one.keep)), []
    if isinstance(one.outcome, Succeeded | Snoozed) and not job.cancel_requested:
        refuse_absent(CAPABILITIES, one.effects)
        enqueued = [tables.add(new, now, job.group_id) for new in one.effects.jobs]
    return jobs.applied(after, enqueued, group_done=tables.file(after))


def rescued(tables, job, max_deliveries, keep, now):
    """A job of a worker that is gone."""
    holder, end = tables.workers.get(job.worker), maybe_later(now, keep)
    taken, after = workers.taken_back(job, holder, now, end, max_deliveries)
    return Rescued(job=jobs.leased(taken), state=after.state, group_done=tables.file(after))
