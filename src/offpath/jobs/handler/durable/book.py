"""The recorded steps of one job, as one attempt sees them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from offpath.errors import InvalidArgument, StepError
from offpath.jobs.values.suspension import Suspended
from offpath.model import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from datetime import datetime

    from offpath.errors import Snooze
    from offpath.jobs.handler.host import Host
    from offpath.jobs.values.run import Run
    from offpath.model.settlement import Waiting

T = TypeVar("T")

_OWN = "~"
"""Begins the names of records that are not steps of the handler's."""


class StepBook:
    """Steps by name: those recorded before, and those that this attempt records.

    Belongs to the worker's loop. The store is asked once, and not at all in a job's first delivery:
    nothing can be recorded then.
    """

    def __init__(self, run: Run, host: Host) -> None:
        self.run = run
        self.host = host
        self.suspension: Suspended | None = None
        """The sleep or wait that ends this attempt: set once and for good."""
        self._recorded: dict[str, str | None] | None = {} if run.job.deliveries == 1 else None
        self._loading = asyncio.Lock()
        self._used: set[str] = set()
        self._unnamed: Counter[str] = Counter()
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def now(self) -> datetime:
        """The store's present time."""
        return self.run.store_time.at(self.host.clock.monotonic())

    # -- names -----------------------------------------------------------------------------------

    def step_key(self, name: str) -> str:
        """The record of a step. Raises ``InvalidArgument`` and ``StepError``."""
        if checks.name(name, "a step's name").startswith(_OWN):
            raise InvalidArgument(f"a step's name must not begin with {_OWN!r}: {name!r}")
        return self._use(name, f"step {name!r}")

    def own_key(self, kind: str, name: str | None, default: str = "") -> str:
        """The record of a sleep, a wait or an undo: by its name, or by the order of calls."""
        if name is None:
            self._unnamed[f"{kind} {default}"] += 1
            name = f"{default}#{self._unnamed[f'{kind} {default}']}"
        else:
            name = checks.name(name, f"the name of a {kind}")
        return self._use(f"{_OWN}{kind} {name}", f"{kind} {name!r}")

    def _use(self, key: str, what: str) -> str:
        if key in self._used:
            raise StepError(
                f"{what} of task {self.run.job.task!r} is there twice in one attempt. A name is "
                "for one record: the second would get the first one's, or, where that failed, a "
                "later attempt would give the second's to the first. Give it another name, or let "
                "the next attempt of the job do it again"
            )
        self._used.add(key)
        return key

    # -- records ---------------------------------------------------------------------------------

    async def recorded(self) -> dict[str, str | None]:
        """The recorded results of the job's steps, by name."""
        if self._recorded is None:
            async with self._loading:
                if self._recorded is None:
                    self._recorded = await self.host.store.steps(self.run.job.id)
        return self._recorded

    async def put(self, key: str, text: str | None) -> str | None:
        """Record once; what is recorded. Not cut short by the attempt's end."""
        kept = await finished(self.host.store.put_step(self.run.job, key, text))
        (await self.recorded())[key] = kept
        return kept

    async def take(self, key: str, *, target: str, event: str) -> str | None:
        """Take a signal and record it; its payload, or None when there is none."""
        job = self.run.job
        call = self.host.store.take_signal(job, target=target, event=event, step=key)
        payload = await finished(call)
        if payload is not None:
            (await self.recorded())[key] = payload
        return payload

    # -- going on, and ending --------------------------------------------------------------------

    def require_going(self) -> None:
        """Refuse what begins when the attempt is over, or about to be."""
        if self.suspension is not None:
            raise Suspended(self.suspension.until)
        if self.run.over:
            raise InvalidArgument(
                f"the attempt of job {self.run.job.id} has ended: it can record nothing any more"
            )

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a step runs that is to be recorded before the attempt may end by itself."""
        self.require_going()
        self._running += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._quiet.set()

    async def suspend(self, until: Snooze | Waiting) -> NoReturn:
        """End the attempt as soon as the steps that run beside are recorded."""
        if self.suspension is None:
            self.suspension = Suspended(until)
        await self._quiet.wait()
        raise Suspended(self.suspension.until)

    async def call(self, fn: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        """Call a blocking function: in the thread of a sync handler that waits, otherwise in
        another.
        """
        from offpath.jobs.handler.durable.lent_thread import lent

        thread = lent()
        return await (self.host.threads.run(fn) if thread is None else thread.run(fn))


async def finished(call: Coroutine[Any, Any, T]) -> T:
    """Await ``call``, and let it end when the attempt is told to: what was done gets recorded.

    Told a second time, it does not wait any longer.
    """
    task = asyncio.ensure_future(call)
    task.add_done_callback(_retrieved)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait((task,))
        raise


def _retrieved(task: asyncio.Future[Any]) -> None:
    """Its error goes to whoever awaits it, or to nobody once the attempt has been ended."""
    if not task.cancelled():
        task.exception()
