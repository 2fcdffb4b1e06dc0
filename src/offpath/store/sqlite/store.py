"""The SQLite backend: its life, its doors, and the transitions that each facet's file does."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from offpath.model.changes import Pruned
from offpath.model.effects import Effects
from offpath.model.glance import Concern
from offpath.model.job import (
    Enqueued,
    JobRecord,
    JobState,
    LeasedJob,
    NewJob,
)
from offpath.model.lease import (
    Leased,
    LeaseRequest,
    Renewed,
    Rescued,
    WorkerInfo,
)
from offpath.model.settlement import Settled, Settlement
from offpath.runtime.clock import Clock, SystemClock
from offpath.runtime.threads import in_own_thread
from offpath.store.capabilities import Capabilities, Durability
from offpath.store.doors import WithinDoors
from offpath.store.hints import Hint, Hints
from offpath.store.programs import jobs, reads, rescue, waits, workers
from offpath.store.programs.dialect import READS, WRITES, How, Queries, one_at_a_time, transition
from offpath.store.programs.store import SqlStore
from offpath.store.programs.waits import nothing_is_up
from offpath.store.protocol import Finding, Migration
from offpath.store.schema import listing
from offpath.store.sql import DEFAULT_SCHEMA, Query, schema_name, with_prefix
from offpath.store.sqlite import (
    deaths,
    lease,
    limits,
    migrate,
    settle,
)
from offpath.store.sqlite.contradictions import Contradictions
from offpath.store.sqlite.diagnosis import diagnose
from offpath.store.sqlite.dialect import SqliteDialect, SqliteRunner
from offpath.store.sqlite.enqueue import enqueue_steps, is_lone_job, on_file, whole
from offpath.store.sqlite.events import SqliteEvents
from offpath.store.sqlite.file import DatabaseFile, log_of
from offpath.store.sqlite.flow import Flowing
from offpath.store.sqlite.foreign_commits import ForeignCommits
from offpath.store.sqlite.forks import GATE
from offpath.store.sqlite.ledger import SqliteLedger
from offpath.store.sqlite.log_events import LogEvents
from offpath.store.sqlite.presence import AVAILABLE, Presence
from offpath.store.sqlite.readers import Readers
from offpath.store.sqlite.session import (
    Session,
    connect,
    file_path,
    require_folder,
    require_version,
)
from offpath.store.sqlite.writer import Shared, Writer

T = TypeVar("T")

_CAPABILITIES: Final = Capabilities(
    name="sqlite",
    durability=Durability.FSYNC,
    shared=True,
    presence=AVAILABLE,
    lasting_presence=AVAILABLE,
    pushes=True,
    self_migrating=True,
)


class SqliteStore(SqliteEvents, WithinDoors, Flowing, SqliteLedger, SqlStore):
    """A :class:`~offpath.store.protocol.Store` in one SQLite file, shared by any processes.

    Writes go through one thread with group commit, reads through others; the event loop waits
    for neither. ``busy_timeout`` is for how many seconds a write waits for somebody else's
    transaction before it raises ``StoreBusy``. Use the file in this process only through Python's
    own ``sqlite3``: a second SQLite library in one process breaks the file's locks. The names of
    all tables begin with ``schema``, so that several stores share a file unseen by each other.
    ``read_limit`` is how many seconds a statement that only reads may take, where somebody only
    looks; it is ended with ``StoreBusy``. A write always has its time.
    """

    _kind = "sqlite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        busy_timeout: float = 15.0,
        schema: str = DEFAULT_SCHEMA,
        read_limit: float | None = None,
    ) -> None:
        self.path = file_path(path)
        self.schema = schema_name(schema)
        self._file = DatabaseFile(self.path)
        self._clock = clock or SystemClock()
        self._busy_timeout = busy_timeout
        self._read_limit = read_limit
        self._hints = Hints()
        self.runner = SqliteRunner(self._now, self._write, self._read, self._hints)
        self._admitting = limits.Admitting()
        self._listeners = 0
        self._writer: Writer | None = None
        self._readers: Readers | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._log_events = LogEvents(log_of(self.path), self._log_written)
        self._foreign = ForeignCommits(self._hints.emit)
        self._opening = asyncio.Lock()
        self._presence = Presence(self.path.with_name(_presence_of(self.path.name, self.schema)))
        self._walk = lease.Walk()
        self._contradictions = Contradictions()
        self._before_statement: Callable[[str], None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        return _CAPABILITIES

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the file, make or complete its schema, start the threads."""
        # Two that open at once would start two writers, and one of them would never be ended.
        async with self._opening:
            if self._writer is not None:
                return
            # While the store was closed, another file may have been put there rightly.
            self._file.forget()
            await self.migrate()
            self._loop = asyncio.get_running_loop()
            self._writer = Writer(
                self._file, self._connect_writer, self._foreign_commit, self._set_aside
            )
            self._writer.polling = self._listeners > 0
            self._readers = Readers(self._file, self._connect_reader)
            self._writer.start()

    async def close(self) -> None:
        """Finish what was asked for, end the threads, close the file, give up presence locks."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        self._log_events.stop()
        self._foreign.stop()
        if writer is not None:
            # The writer first, since what was asked for is still committed.
            writer.finish()
            await in_own_thread(writer.join)
        if readers is not None:
            await in_own_thread(readers.stop)
        # Last: locks that are free while the worker still writes would look like its death.
        await in_own_thread(self._presence.abandon)

    async def migrate(self) -> list[Migration]:
        """Apply pending schema steps; makes the file if there is none."""
        now = self._now()
        return await in_own_thread(
            lambda: self._once(lambda session: migrate.migrate(session, now), create=True)
        )

    async def migrations(self) -> list[Migration]:
        """Every known schema step; a file that does not exist has none applied.

        Raises ``StoreUnavailable`` where its folder does not exist either.
        """

        def read() -> list[Migration]:
            if not self.path.exists():
                require_folder(self.path)
                return listing(migrate.KNOWN, [])
            applied = self._once(migrate.applied, create=False)
            return listing(migrate.KNOWN, applied)

        return await in_own_thread(read)

    def migration_script(self, *, after: int = 0) -> str:
        """The steps after ``after`` as SQL text."""
        return with_prefix(migrate.script(after=after), self.schema)

    async def diagnose(self) -> list[Finding]:
        """Look at the library, the log, and rows that should not be."""
        return await self.runner.run(lambda d: diagnose(d, self.path), READS)

    async def ping(self) -> datetime:
        """The store's clock, after reading from the file."""
        await self._read(migrate.applied)
        return self._clock.now()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call ``callback`` in the event loop when something may have changed.

        What this process does is told at once; what others commit within about 2 ms on Linux,
        and within about 20 ms elsewhere.
        """
        end = self._hints.subscribe(callback)
        self._listen(+1)
        left = [end]

        def stop() -> None:
            if left:
                left.pop()()
                self._listen(-1)

        return stop

    # -- doors: new work -------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write all effects or none; answered after the commit is on the disk."""
        if not effects:
            return []
        answers = await self._write(
            lambda session: session.drive(enqueue_steps(effects, self._clock.now())),
            shared=Shared(self._commit_all, effects.jobs[0]) if is_lone_job(effects) else None,
        )
        self._tell_effects(effects)
        return answers

    def _commit_all(self, session: Session, jobs: list[NewJob]) -> list[list[Enqueued]]:
        """Jobs of as many callers; each gets its own answer."""
        answers = session.drive(enqueue_steps(Effects(jobs=tuple(jobs)), self._clock.now()))
        return [[answer] for answer in answers]

    def _commit_steps(self, effects: Effects) -> Queries[list[Enqueued]]:
        return on_file(self.path, self.schema, whole(enqueue_steps(effects, self._clock.now())))

    def _get_steps(self, ids: Sequence[str]) -> Queries[list[JobRecord]]:
        return on_file(self.path, self.schema, one_at_a_time(reads.get(SqliteDialect(0), ids)))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End attempts, each with its effects."""
        if not settlements:
            return []
        settled = await self._write(
            lambda session: limits.following(session, self._now(), settlements, settle.settle)
        )
        states = {each.state for each in settled if each.state is not None}
        self._tell(
            waiting=JobState.QUEUED in states or any(each.enqueued for each in settled),
            ended=any(state.terminal for state in states),
        )
        return settled

    # -- jobs ------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs, best first."""
        return await self._write(
            lambda session: lease.lease(
                session, self._now(), request, self._walk, self._contradictions
            ),
            peek=lambda session: lease.nothing_to_lease(session, self._now(), request),
            relaxed=True,  # lost with the power, it leaves the job ready, and its worker is gone
        )

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take jobs from workers that are gone."""
        presence = self._presence
        return await self.runner.run(
            lambda d: rescue.rescue(
                d,
                limit=limit,
                max_deliveries=max_deliveries,
                keep=keep,
                spared=lambda d: deaths.spared_steps(d, presence),
            ),
            WRITES,
            lambda d: deaths.nothing_to_rescue(d, presence),
        )

    expire_blocked = transition(waits.expire, peek=nothing_is_up)

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:
        """The passes that may find something now."""
        found, present = await self._read(
            lambda session: deaths.glance(session, self._now(), self._admitting, work=work)
        )
        others = self._presence.of_others(present)
        if Concern.DEATHS not in found:
            missing = await self._block(lambda: self._presence.missing(others)) if others else ()
            if missing:
                return found | {Concern.DEATHS}
        return found

    async def notice_deaths(self) -> list[str]:
        """End the lease of workers whose lock is free: the system frees it with their process."""
        if not AVAILABLE:
            return []
        present = await self._read(lambda session: deaths.present(session, self._now()))
        dead = sorted(await self._block(lambda: self._presence.missing(present)))
        if not dead:
            return []
        expired = await self._write(lambda session: deaths.expire(session, self._now(), dead))
        # Behind the commit: without the file nobody could see this death a second time.
        await self._block(lambda: self._presence.forget(expired))
        return expired

    async def prune(self, *, limit: int) -> Pruned:
        """Remove what has ended and whose time has passed, and lock files nobody has."""
        removed = await self.runner.run(lambda d: jobs.prune(d, limit=limit), WRITES)
        known = await self._read(deaths.known)
        await self._block(lambda: self._presence.sweep(known))
        return removed

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker, or renew its lease; takes its presence lock."""
        # The lock before the row, which says whether there is one.
        presence = await self._block(lambda: self._presence.hold(worker.id))
        lock = 1 if presence else None
        await self.runner.run(lambda d: workers.register(d, worker, lease_seconds, lock), WRITES)
        return presence

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Renewed:
        """Renew a worker's lease, and tell it about its jobs."""
        presence = await self._block(lambda: self._presence.hold(worker.id))
        lock = 1 if presence else None
        return await self.runner.run(
            lambda d: workers.extend(d, worker, lease_seconds, lock, held, report=report),
            How(relaxed=True),
        )

    def cut_off(self) -> bool:
        """No connection shows that this process lives."""
        return False

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker whose event loop is blocked, by the writer's thread."""
        if self._writer is None:
            return False
        return self._writer.do_waiting(
            lambda session: bool(session.run(self._vouch(worker, lease_seconds, report)))
        )

    def _vouch(self, worker: str, lease_seconds: float, report: str | None) -> Query:
        return workers.vouch(SqliteDialect(self._now()), worker, lease_seconds, report)

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that a worker holds."""
        return await self._read(lambda session: lease.held(session, worker))

    async def deregister(self, worker: str) -> None:
        """A worker is gone; what it holds is up for rescue."""
        # The row first: after a crash between the two it says that the worker has stopped.
        await self.runner.run(lambda d: workers.deregister(d, worker), WRITES)
        await self._block(lambda: self._presence.release(worker))

    # -- inside ----------------------------------------------------------------------------

    def _listen(self, step: int) -> None:
        self._listeners += step
        if self._writer is not None:
            self._writer.listen(self._listeners > 0)
            if not self._listeners:
                self._writer.told = False
                self._log_events.stop()

    def _log_written(self) -> bool:
        """Somebody has written to the log; True if a commit of others may be about to be seen."""
        return self._writer is not None and self._writer.expect()

    def _set_aside(self, session: Session) -> bool:
        """Set the jobs aside that refuse every change; called in the writer's thread."""
        return self._contradictions.set_aside(session, self._now(), everywhere=True)

    def _foreign_commit(self) -> None:
        """Another connection has committed something; called in the writer's thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed before the store
                self._loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        if self._listeners and self._writer is not None:
            # the log is there already: it is made by the first look into the file
            self._writer.told = self._log_events.start()
        self._foreign.seen()

    def _before(self, name: str) -> None:
        if self._before_statement is not None:
            self._before_statement(name)

    def _connect_writer(self) -> Session:
        return self._connect(create=False, reading=False)

    def _connect_reader(self) -> Session:
        return self._connect(create=False, reading=True)

    def _connect(self, *, create: bool, reading: bool) -> Session:
        require_version()
        before = _unwatched if reading else self._before
        return connect(
            self._file,
            before=before,
            patience=self._busy_timeout,
            create=create,
            reading=reading,
            schema=self.schema,
            limit=self._read_limit if reading else None,
        )

    def _once(self, work: Callable[[Session], T], *, create: bool) -> T:
        """Run something on a connection of its own. Blocks."""
        with GATE:
            session = self._connect(create=create, reading=False)
            try:
                return work(session)
            finally:
                session.close()


def _unwatched(_name: str) -> None:
    """Reads change nothing: the fault hook does not concern them."""


def _presence_of(file: str, schema: str) -> str:
    """The name of the folder of workers' locks: each schema of a file has workers of its own."""
    return f"{file}.workers" if schema == DEFAULT_SCHEMA else f"{file}.{schema}.workers"
