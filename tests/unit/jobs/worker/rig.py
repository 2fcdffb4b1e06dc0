"""A worker over the memory store, with a clock that the test moves and a store that can fail."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offpath.events.event_writer import MessageWriter
from offpath.jobs.client.hooks import EndWatch, Hooks, Reporter
from offpath.jobs.handler.resources import Resources
from offpath.jobs.values.group_codecs import GroupCodecs
from offpath.jobs.values.group_values import GroupValues
from offpath.jobs.values.job import Job
from offpath.jobs.values.runnable import Around, BatchSpec, LogContext, OnEvent, OnFailure
from offpath.jobs.worker.judge import AttemptRules
from offpath.jobs.worker.terms import Parts, WorkerSettings
from offpath.jobs.worker.upkeep import Upkeep, UpkeepPass
from offpath.jobs.worker.worker import Worker
from offpath.model.effects import Effects
from offpath.model.event import EventKind, JobEvent
from offpath.model.headers import TraceRelation
from offpath.model.job import JobRecord, JobState, NewJob, UniqueClaim
from offpath.model.options import RunOptions, encode_run
from offpath.model.retry import BackoffFunction, RetryPolicy
from offpath.runtime.clock import ManualClock
from offpath.runtime.codec import JsonCodec
from offpath.runtime.ids import new_id
from offpath.runtime.metrics import Metrics
from offpath.runtime.signature import InputModel, ResultModel
from offpath.runtime.threads import Threads
from offpath.store.memory import MemoryStore
from offpath.store.seam import observed_store
from offpath.store.telemetry.meter import StoreMeter
from offpath.sweeps.groups import CheckGroups
from offpath.sweeps.prune import Prune
from offpath.sweeps.rescue import Rescue

PATIENCE = 10.0
"""Real seconds after which a wait has failed."""


OWN_OPTIONS = RunOptions()
TEMPLATE = NewJob(id="", task="", input="{}", fingerprint="")


@dataclass(kw_only=True, eq=False)
class FakeTask:
    """A task as the worker sees it."""

    fn: Callable[..., Any]
    name: str
    is_async: bool
    takes_context: bool
    inputs: InputModel
    results: ResultModel
    concurrency: int | None = None
    own_options: RunOptions = OWN_OPTIONS
    template: NewJob = TEMPLATE
    backoff: BackoffFunction | None = None
    on_failure: OnFailure | None = None
    on_event: OnEvent | None = None
    log_context: LogContext | None = None
    around: Sequence[Around] = ()
    trace: TraceRelation | None = None
    strict: bool = True
    batch: BatchSpec | None = None
    group_values: GroupValues


class FaultyStore:
    """Lets each call through to the memory store, unless a fault is set for it.

    A fault is an error to raise before the call (or ``after=True``: after it was carried out, as
    when the answer is lost), a number of times.
    """

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self._faults: dict[str, tuple[Exception, int, bool]] = {}
        self.doors: dict[str, asyncio.Event] = {}
        self.calls: list[str] = []

    def fail(
        self, operation: str, error: Exception, *, times: int = 1, after: bool = False
    ) -> None:
        self._faults[operation] = (error, times, after)

    def heal(self) -> None:
        self._faults.clear()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name in self.doors:
                await self.doors[name].wait()
            error, times, after = self._faults.get(name, (None, 0, False))
            if error is not None and times > 0:
                self._faults[name] = (error, times - 1, after)
                if after:
                    await attribute(*args, **kwargs)
                raise error
            return await attribute(*args, **kwargs)

        return call


class Rig:
    """Everything of one test."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory = MemoryStore(self.clock)
        self.faulty = FaultyStore(self.memory)
        self.errors: list[tuple[BaseException, str]] = []
        self.events: list[JobEvent] = []
        self.ended: list[str] = []
        self.metrics = Metrics()
        self.tasks: dict[str, FakeTask] = {}
        self.report = Reporter(lambda error, phase: self.errors.append((error, phase)), self.clock)
        self.hooks = Hooks(self.report, self.events.append, self.tasks)
        watch = EndWatch(self.ended.extend)
        meter = StoreMeter(self.metrics, "memory")
        self.store = observed_store(self.faulty, self.clock, meter, (self.hooks, watch))
        self.threads = Threads(8)
        self.workers: list[Worker] = []

    def task(self, fn: Callable[..., Any], *, name: str = "", **fields: Any) -> FakeTask:
        """Register a handler; it takes the context if its first parameter is ``ctx``."""
        context = next(iter(inspect.signature(fn).parameters), "") == "ctx"
        name = name or fn.__name__
        made = FakeTask(
            fn=fn,
            name=name,
            is_async=inspect.iscoroutinefunction(fn),
            takes_context=context,
            inputs=InputModel(fn, context=context, name=name),
            results=(results := ResultModel.of(fn, name=name)),
            group_values=GroupValues(Any, results.codec, name, GroupCodecs(results.codec, {})),
            **fields,
        )
        self.tasks[name] = made
        return made

    def new(
        self,
        task: str,
        text: str = "{}",
        *,
        attempts: int = 3,
        base: float = 1.0,
        timeout: float | None = None,
        **fields: Any,
    ) -> NewJob:
        """An unsent job without jitter in its retries."""
        policy = RetryPolicy(attempts=attempts, base=base, jitter=0.0)
        fields.setdefault("options", encode_run(RunOptions(retry=policy, timeout=timeout)))
        fields.setdefault("id", new_id())
        return NewJob(task=task, input=text, fingerprint=f"{task}{text}", **fields)

    def job(self, task: str, **fields: Any) -> Job[Any, Any]:
        """An unsent job as ``task.job()`` makes it."""
        return Job(self.new(task, **fields), lambda text: text)

    async def enqueue(self, task: str, text: str = "{}", **fields: Any) -> str:
        new = self.new(task, text, **fields)
        await self.store.commit(Effects(jobs=(new,)))
        return new.id

    def worker(
        self,
        *,
        rules: AttemptRules | None = None,
        redrive: UpkeepPass | None = None,
        keep_log: float | None = None,
        **settings: Any,
    ) -> Worker:
        given = WorkerSettings(rules=rules or AttemptRules(), **settings)
        keep = given.rules
        upkeep = Upkeep(
            rescue=Rescue(
                lambda: self.store, max_deliveries=given.max_deliveries, keep_dead=keep.keep_dead
            ),
            group_check=CheckGroups(
                lambda: self.store,
                keep_dead=keep.keep_dead,
                keep_cancelled=keep.keep_cancelled,
                report=self.report,
            ),
            prune=Prune(lambda: self.store, keep_log=keep_log),
            redrive=redrive,
        )
        parts = Parts(
            store=self.store,
            clock=self.clock,
            threads=self.threads,
            report=self.report,
            new_id=new_id,
            writer=MessageWriter(JsonCodec(), new_id, 2**20),
            resources=Resources(self.report),
            random=lambda: 0.0,
            metrics=self.metrics,
            upkeep=upkeep,
        )
        worker = Worker(parts, self.tasks, given)
        self.workers.append(worker)
        return worker

    async def started(self, **settings: Any) -> Worker:
        """A worker that has had the time to take what is due."""
        worker = self.worker(**settings)
        await worker.start()
        await breathe()
        return worker

    async def run(self, **settings: Any) -> None:
        """Run all that is due, with a worker of its own."""
        await self.worker(**settings).run_until_idle()

    async def record(self, job_id: str) -> JobRecord:
        (record,) = await self.memory.get((job_id,))
        return record

    async def state(self, job_id: str) -> JobState:
        return (await self.record(job_id)).state

    async def pass_time(self, seconds: float, step: float = 0.25) -> None:
        """Move the clock in steps, and let everybody act in between."""
        left = seconds
        await breathe()
        while left > 1e-9:
            self.clock.advance(min(step, left))
            left -= step
            await breathe()

    def kinds(self, job_id: str) -> list[EventKind]:
        return [event.kind for event in self.events if event.id == job_id]

    def phases(self) -> list[str]:
        return [phase for _, phase in self.errors]

    async def close(self) -> None:
        self.faulty.heal()
        for gate in self.faulty.doors.values():
            gate.set()
        for worker in self.workers:
            stop = asyncio.ensure_future(worker.stop(drain=False))
            while not stop.done():
                self.clock.advance(0.5)
                await breathe()
        self.threads.close()


async def breathe(turns: int = 30) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool | Coroutine[Any, Any, bool]]) -> None:
    """Wait for something that other tasks or threads bring about."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = condition()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.001)


def claim(key: str) -> UniqueClaim:
    """A unique key that refuses a second holder."""
    return UniqueClaim(key=key, policy="refuse")  # type: ignore[arg-type]


def at(clock: ManualClock, seconds: float) -> datetime:
    """So many seconds from now."""
    moment = ManualClock(clock.now())
    moment.advance(seconds)
    return moment.now()
