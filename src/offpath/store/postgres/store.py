"""The store on Postgres: each protocol method is one transaction of the steps beside it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from offpath.model.effects import Effects
from offpath.model.glance import AHEAD, Concern
from offpath.model.job import (
    Enqueued,
    JobRecord,
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
from offpath.runtime.clock import Clock
from offpath.store.capabilities import Capabilities, Durability
from offpath.store.doors import WithinDoors
from offpath.store.hints import Hint, Hints
from offpath.store.postgres import deaths
from offpath.store.postgres.address import APPLICATION, parse_address
from offpath.store.postgres.announcements import Announcer
from offpath.store.postgres.contention import MOMENT, Care, settle_free_steps
from offpath.store.postgres.diagnosis import diagnose
from offpath.store.postgres.dialect import PostgresDialect, PostgresRunner
from offpath.store.postgres.effects import commit_steps, commit_within_steps, with_own_path
from offpath.store.postgres.enqueue import enqueue_each
from offpath.store.postgres.events import EventTables
from offpath.store.postgres.flow import AdmissionTurns, FlowTables
from offpath.store.postgres.group_commit import Joiner
from offpath.store.postgres.isolation import settle_apart
from offpath.store.postgres.joint_reads import JointRunner
from offpath.store.postgres.lease import Leases, held_steps
from offpath.store.postgres.ledger import LedgerTables
from offpath.store.postgres.ledger_post import KnownAccounts
from offpath.store.postgres.listener import Listener, own_presence
from offpath.store.postgres.log import Horizon, SharedLook
from offpath.store.postgres.lone import enqueue_plain, is_plain, plain_answer
from offpath.store.postgres.migrate import (
    PACKAGE,
    Migrator,
    applied_steps,
    known,
    roles_script,
    script,
)
from offpath.store.postgres.notice_connection import NoticeConnection
from offpath.store.postgres.renewal import RenewalConnections, Vouching
from offpath.store.postgres.session import CALL_PATIENCE, Database
from offpath.store.postgres.settle import (
    AloneTries,
    lone_successes,
    refused,
    settle_steps,
    succeed_steps,
)
from offpath.store.postgres.steps import moment, to_json
from offpath.store.postgres.workflows import WorkflowTables
from offpath.store.programs import jobs, reads, rescue, workers
from offpath.store.programs.dialect import (
    WRITES,
    How,
    Queries,
    embed,
    one,
    one_at_a_time,
    transition,
)
from offpath.store.programs.store import SqlStore
from offpath.store.protocol import Finding, Migration
from offpath.store.schema import listing, require_current
from offpath.store.sql import catalogue, schema_name
from offpath.store.wakes import bus_of

_CAPABILITIES: Final = Capabilities(
    name="postgres",
    durability=Durability.FSYNC,
    shared=True,
    presence=True,
    pushes=True,
    self_migrating=False,
)
_TIME: Final = How(reads=True, call=True, unpinned=True)


class PostgresStore(
    Vouching,
    EventTables,
    WithinDoors,
    WorkflowTables,
    FlowTables,
    LedgerTables,
    SqlStore,
):
    """Jobs and events in a Postgres database, in a schema of their own.

    ``url`` may carry ``?offpath_direct=1`` or ``=0``: whether statements may be prepared. Else
    each connection finds out whether a pooler is in between. ``?offpath_notify_url=`` (or
    ``notify_url``) is a direct way for LISTEN and presence where ``url`` goes through a pooler, or
    a Redis or NATS server that carries wake-ups instead. ``schema`` counts before
    ``?offpath_schema=``.
    ``clock`` None means the database's own clock. ``migrate`` brings the schema up to date on
    opening; without it a schema that does not fit is an error. ``call_timeout`` is how many seconds
    a caller waits for each answer of the server (and for a connection) before the call is given up.
    ``looks``: it is somebody's who mostly reads, and several things at a time; they go out as one.
    """

    _kind = "postgres"

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        schema: str | None = None,
        migrate: bool = False,
        notify_url: str | None = None,
        pool_size: int = 8,
        call_timeout: float = CALL_PATIENCE,
        application_name: str = APPLICATION,
        looks: bool = False,
    ) -> None:
        address = parse_address(url, notify_url=notify_url, application_name=application_name)
        schema = schema_name(address.schema if schema is None else schema)
        sql = catalogue(PACKAGE, schema=schema)
        self._database = Database(
            address, sql, pool_size=pool_size, call_patience=call_timeout, freely=looks
        )
        self._sql = sql
        self._clock = clock
        self._hints = Hints()
        channel = f"offpath.{schema}.{address.database}"
        self._bus = None if address.bus is None else bus_of(address.bus, channel)
        self._announcer = Announcer(
            self._bus or NoticeConnection(address.conninfo, schema, self._notifies_by)
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        runs = JointRunner if looks else PostgresRunner
        self.runner = runs(self._database, sql, clock, self._tell)
        self._horizon = Horizon()
        self._shared_look = SharedLook(self._look)
        self._schema = schema
        self._migrate_on_open = migrate
        self._address = address
        self._renewals = RenewalConnections(address)
        self._leases = Leases(self._hints, looks_only=clock is not None)
        self._alone_tries = AloneTries()
        self._care = Care()
        self._accounts = KnownAccounts()
        self._passes = AdmissionTurns()
        self._joiner = Joiner(self._commit, self._commit_each, self._commit_now)
        self._listener: Listener | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        return _CAPABILITIES

    @property
    def _before_statement(self) -> Callable[[str], None] | None:
        return self._database.before

    @_before_statement.setter
    def _before_statement(self, before: Callable[[str], None] | None) -> None:
        self._database.before = before

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect and check the schema, or bring it up to date with ``migrate``."""
        if self._listener is not None:
            return
        await self._database.open()
        try:
            if self._migrate_on_open:
                await self.migrate()
            require_current(known(), await self._applied())
        except BaseException:
            await self._database.close()
            raise
        self._loop = asyncio.get_running_loop()
        # Last, since it marks the store as open: one that could not open may be opened again.
        self._listener = Listener(
            self._address.notify, self._schema, self._sql, self._hints.emit, self._forget_presence
        )

    async def close(self) -> None:
        """Release every connection; a shared commit under way is finished first."""
        self._loop = None
        self._renewals.close()
        # In this order: the last commit is still written, then announced, then the connections go.
        await self._joiner.close()
        await self._announcer.close()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        await self._database.close()

    async def migrate(self) -> list[Migration]:
        """Apply pending steps; each runs once however many processes ask."""
        return await self._migrator().migrate()

    async def migrations(self) -> list[Migration]:
        """Every known step, applied or pending."""
        return listing(known(), await self._applied())

    def migration_script(self, *, after: int = 0) -> str:
        """The steps after ``after`` as SQL text."""
        return script(schema=self._schema, after=after)

    def roles_script(self) -> str:
        """The roles of this schema and their rights, as SQL text."""
        return roles_script(schema=self._schema)

    async def grant_roles(self) -> None:
        """Make the roles of this schema, and grant what each may do."""
        await self._migrator().grant_roles()

    async def diagnose(self) -> list[Finding]:
        """Look at settings, long transactions, dead rows, and rows that should not be."""
        direct = self._listener is not None and await self._listener.listens()
        return await self.runner.run(
            lambda d: diagnose(d, direct=direct, bus=self._bus, schema=self._schema),
            How(reads=True, unpinned=True),
        )

    async def ping(self) -> datetime:
        """The store's clock."""
        rows = await self.runner.run(lambda d: one(d.sql["ping"](now=d.now)), _TIME)
        return msgspec.json.decode(rows[0][0], type=datetime)

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Hear of changes, here and in other processes."""
        if self._bus is not None and self._loop is not None:
            self._bus.hear(self._hints.emit)
        elif self._listener is not None:
            self._listener.start()
        return self._hints.subscribe(callback)

    # -- doors -----------------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write all effects in one commit; concurrent calls share theirs."""
        if (made := await self._joiner.alone(effects)) is not None:
            self._tell(Hint.WORK)
            return [made]
        if not effects:
            return []
        answers = await self._joiner.commit(effects)
        if effects.log:
            await self._learn_horizon()
        if effects.log or effects.operations or any(answer.created for answer in answers):
            self._tell_effects(effects)
        return answers

    async def _commit(self, effects: Effects) -> list[Enqueued]:
        now = self._now()
        return await self._database.call(lambda: embed(commit_steps(effects, now, sql=self._sql)))

    async def _commit_each(self, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
        if len(jobs) == 1 and is_plain(jobs[0]):
            query = enqueue_plain(jobs[0], self._now(), sql=self._sql)
            rows = await self._database.call(lambda: one(query))
            return [plain_answer(jobs[0], query, rows)]
        now = self._now()
        return await self._database.call(lambda: enqueue_each(jobs, now, sql=self._sql))

    def _commit_now(self, job: NewJob) -> asyncio.Future[Enqueued | None] | None:
        door = self._database.door
        # tests that hear of each statement before it is sent have the ordinary way
        return None if door is None or self._database.before else door.send(job, self._now())

    def _commit_steps(self, effects: Effects) -> Queries[list[Enqueued]]:
        return commit_within_steps(effects, self._now(), sql=self._sql)

    def _get_steps(self, ids: Sequence[str]) -> Queries[list[JobRecord]]:
        steps = one_at_a_time(reads.get(PostgresDialect(self._sql, None), ids))
        return with_own_path(steps, sql=self._sql)

    def _wrote_within(self, connection: Any, effects: Effects) -> None:  # noqa: ANN401 - the caller's
        """Wake workers when the caller has committed, where its library tells of that.

        Not by a NOTIFY in the transaction, which would take a lock on the whole database.
        """
        loop = self._loop
        if loop is None:
            return
        from offpath.store.within.commits import after_commit

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: others find it by polling
                loop.call_soon_threadsafe(self._tell_effects, effects)

        after_commit(connection, tell)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End attempts in one commit if all can be stored."""
        if not settlements:
            return []
        answers = await settle_apart(
            settlements, self._settle_together, self._rehearse_settle, refused
        )
        self._tell_settled(answers)
        await self._admit_after(settlements)
        for settlement, answer in zip(settlements, answers, strict=True):
            if answer.enqueued or settlement.effects.log or settlement.effects.operations:
                self._tell_effects(settlement.effects)
        return answers

    async def _rehearse_settle(self, some: Sequence[Settlement]) -> None:
        now = self._now()
        await self._database.rehearse(functools.partial(settle_steps, some, now, sql=self._sql))

    async def _settle_together(self, settlements: Sequence[Settlement]) -> list[Settled]:
        if not settlements:
            return []
        return await self._care.settle(
            settlements, self._settle_at_once, self._settle_free, locked=self._somebody_waits
        )

    async def _somebody_waits(self) -> bool:
        query = self._sql["waits_for_a_job"](seconds=MOMENT / 2)
        return bool(await self._database.write(lambda: one(query)))

    async def _settle_free(self, settlements: Sequence[Settlement]) -> list[Settled]:
        now, sql = self._now(), self._sql
        with self._telling() as announced:
            return await self._database.write(
                lambda: settle_free_steps(settlements, now, announced, sql=sql)
            )

    async def _settle_at_once(self, settlements: Sequence[Settlement]) -> list[Settled]:
        now, sql = self._now(), self._sql
        quick: list[Settled | None] = [None] * len(settlements)
        with self._telling() as announced:
            if self._alone_tries.may_be_alone() and lone_successes(settlements):
                quick = await self._database.write(
                    lambda: succeed_steps(settlements, now, announced, sql=sql)
                )
                self._alone_tries.met(all_of_them=not any(quick))
            left = [settlements[n] for n, answer in enumerate(quick) if answer is None]
            if not left:
                return [answer for answer in quick if answer is not None]
            rest = iter(
                await self._database.write(lambda: settle_steps(left, now, announced, sql=sql))
            )
            return [answer or next(rest) for answer in quick]

    # -- jobs ------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs, best first."""
        return await self._leases.lease(request, self._lease_once)

    async def _lease_once(self, request: LeaseRequest) -> Leased:
        now = self._now()
        with self._telling() as announced:
            return await self._database.write(
                lambda: self._leases.steps(request, now, announced, sql=self._sql)
            )

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take running jobs from workers that are gone."""
        own = own_presence()
        return await self.runner.run(
            lambda d: rescue.rescue(
                d,
                limit=limit,
                max_deliveries=max_deliveries,
                keep=keep,
                spared=lambda d: deaths.spared_steps(d, own),
            ),
            WRITES,
        )

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:
        """The passes that may find something now."""
        begun = self._leases.front.begin()
        look = self._sql["glance"](now=moment(self._now()), work=work, ahead=AHEAD)
        ((*found,),) = await self._database.write(lambda: one(look))
        seen = frozenset(concern for concern, may in zip(Concern, found, strict=True) if may)
        if work:
            self._leases.front.glanced(begun, ready=Concern.WORK in seen)
        return seen

    async def notice_deaths(self) -> list[str]:
        """Expire workers whose lock was missing twice; nobody while our own lock is hardly back."""
        if self._listener is not None and self._listener.cut_within(deaths.RESTART_GRACE):
            return []
        now = self._now()
        dead = await self._database.write(lambda: deaths.notice_deaths_steps(now, sql=self._sql))
        if dead:
            self._tell(Hint.MESSAGES)  # what they held of routers and messages is free
        return dead

    prune = transition(jobs.prune)

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker, and take its presence lock where that is possible."""
        key = deaths.presence_key(self._schema, worker.id)
        # The lock before the row: a row that counts on a lock which is not there looks like a
        # death.
        seen = self._listener is not None and await self._listener.hold(key)
        presence = key if seen else None
        await self.runner.run(
            lambda d: workers.register(d, worker, lease_seconds, presence), WRITES
        )
        return seen

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Renewed:
        """The heartbeat."""
        self._renewals.release()  # the loop turns: no thread needs to renew
        key = deaths.presence_key(self._schema, worker.id)
        presence = key if self._listener is not None and self._listener.holds(key) else None
        return await self.runner.run(
            lambda d: workers.extend(d, worker, lease_seconds, presence, held, report=report),
            WRITES,
        )

    def cut_off(self) -> bool:
        """True if the server has cut the listening connection and the loop does not know it."""
        return self._listener is not None and self._listener.cut_off()

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that a worker holds."""
        return await self._database.read(lambda: held_steps(worker, sql=self._sql))

    async def deregister(self, worker: str) -> None:
        """Note that a worker has stopped, and drop its lock."""
        # The row before the lock: a lock that is gone while the row counts on it looks like a
        # death.
        await self.runner.run(lambda d: workers.deregister(d, worker), WRITES)
        if self._listener is not None:
            await self._listener.drop(deaths.presence_key(self._schema, worker))

    async def _applied(self) -> list[Migration]:
        if not self._database.is_open:
            return await self._migrator().applied()
        return await self._database.write(lambda: applied_steps(sql=self._sql), "limit")

    def _migrator(self) -> Migrator:
        return Migrator(self._address, self._schema, self._database.before)

    async def _forget_presence(self, keys: list[int]) -> None:
        if keys:
            query = self._sql["forget_presence"](keys=to_json([str(key) for key in keys]))
            await self._database.write(lambda: one(query))

    def _notifies_by(self, pid: int) -> None:
        if self._listener is not None:
            self._listener.own_pids.add(pid)

    def _tell_settled(self, answers: Iterable[Settled]) -> None:
        states = {answer.state for answer in answers if answer.state is not None}
        self._tell_states(states, Hint.WORK)
