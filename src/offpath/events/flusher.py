"""Writing how attempts at messages ended: what has gathered, in one transaction, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.errors import CapabilityMissing, StoreError, StoreRejected
from offpath.model.job import DeadReason
from offpath.model.message import LeasedMessage, MessageSettlement
from offpath.model.relay import PUT_OFF
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded
from offpath.runtime.failures import failure_of

if TYPE_CHECKING:
    from offpath.model.message import MessageOutcome, MessageSettled
    from offpath.runtime.clock import Clock
    from offpath.store.events import EventStore

MOST = 1_000
"""Ends written in one transaction."""
FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
"""Seconds between two tries while the store is away."""

RELEASED = "released"
LOST = "lost"
"""Somebody else has it: nothing was written."""
UNRECORDED = "unrecorded"
"""The store could not be told in time; it will be handed out again."""
FAILED = "failed"
DEAD = "dead_lettered"
SNOOZED = "snoozed"
"""Put off by whoever was to take it: its attempt counts, and nothing failed."""
BAD = frozenset({FAILED, DEAD, UNRECORDED})
UNTRIED = frozenset({RELEASED, LOST})
"""Buckets that say nothing of how it goes."""


class AttemptEnd(Struct, frozen=True, gc=False):
    """The end of one attempt, on its way into the store."""

    settlement: MessageSettlement
    until: float
    """The lease holds until then, by the monotonic clock."""


Wrote = Callable[[Sequence[AttemptEnd], str], None]
"""Told of ends that are over, and the bucket they belong to."""
Failed = Callable[[LeasedMessage, BaseException], MessageSettlement]
"""The end of an attempt that raised."""


class Flusher:
    """Gathers ends and writes them. ``wrote`` is told about each; an error of its own is
    reported.
    """

    def __init__(
        self,
        store: EventStore,
        clock: Clock,
        wrote: Wrote,
        failed: Failed,
        *,
        done: str,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._wrote = wrote
        self._failed = failed
        self._buckets: Mapping[type, str] = {
            Succeeded: done,
            Retry: FAILED,
            Dead: DEAD,
            Released: RELEASED,
        }
        self._report = report
        self._gathered: list[AttemptEnd] = []
        self._writing: list[AttemptEnd] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, end: AttemptEnd) -> None:
        """Have an end written: at once, or with the next transaction if one is under way."""
        self._gathered.append(end)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="offpath messages settle")

    def abort(self) -> asyncio.Task[None] | None:
        """Stop trying. What is not written is unrecorded; the task that ends with it."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    async def _run(self) -> None:
        try:
            while self._gathered:
                self._writing, self._gathered = self._gathered[:MOST], self._gathered[MOST:]
                await self._write()
        except asyncio.CancelledError:
            left, self._writing, self._gathered = [*self._writing, *self._gathered], [], []
            self._give_up(left)
            raise
        finally:
            self._task = None

    async def _write(self) -> None:
        repeated = False
        wait = FIRST_WAIT
        while batch := self._writing:
            try:
                answers = await self._store.settle_messages([end.settlement for end in batch])
            except StoreError as error:
                if isinstance(error, StoreRejected | CapabilityMissing):
                    self._refuse_all(error)
                    return
                if not repeated and not error.retryable:  # the store's own trouble, not the ends'
                    self._report(error, "settle messages")
                # Unknown, not undone: what was written all the same answers LEASE_LOST next time.
                repeated = True
                await self._rest(wait)
                wait = min(2 * wait, LONGEST_WAIT)
            except Exception as error:  # noqa: BLE001 - its rows come again, others must go on
                self._refuse_all(error)
                return
            else:
                self._writing = []
                self._answered(batch, answers, repeated=repeated)

    async def _rest(self, wait: float) -> None:
        """Wait before the next try, and keep the ends whose lease still holds."""
        await self._clock.sleep(wait)
        now, batch = self._clock.monotonic(), self._writing
        self._writing = [end for end in batch if end.until > now]
        self._give_up([end for end in batch if end.until <= now])

    def _refuse_all(self, error: Exception) -> None:
        self._report(error, "settle messages")
        batch, self._writing = self._writing, []
        self._give_up(batch)

    def _answered(
        self, batch: list[AttemptEnd], answers: list[MessageSettled], *, repeated: bool
    ) -> None:
        written: dict[str, list[AttemptEnd]] = {}
        for end, answer in zip(batch, answers, strict=True):
            status = answer.status
            if status is SettleStatus.REFUSED:
                self._refused(end, answer)
            elif status is SettleStatus.LEASE_LOST and not repeated:
                written.setdefault(LOST, []).append(end)
            else:
                bucket = self._bucket(end.settlement.outcome)
                written.setdefault(bucket, []).append(end)
        for bucket, ends in written.items():
            self._wrote(ends, bucket)

    def _bucket(self, outcome: MessageOutcome) -> str:
        put_off = isinstance(outcome, Retry) and outcome.failure.kind == PUT_OFF
        return SNOOZED if put_off else self._buckets[type(outcome)]

    def _refused(self, end: AttemptEnd, answer: MessageSettled) -> None:
        """Settle a message that the store refused as dead, so that it is not tried for ever. A
        refusal of the ledger that may pass, such as an overdraft, counts as if the handler had
        raised it.
        """
        from offpath.model.ledger.faults import another_time  # loaded where there is a ledger

        message, outcome = end.settlement.message, end.settlement.outcome
        error = answer.error or StoreError("the store refused it")
        if isinstance(outcome, Succeeded) and another_time(error):
            self.add(AttemptEnd(self._failed(message, error), end.until))
            return
        if isinstance(outcome, Dead):
            self._report(error, "settle messages")
            self._wrote([end], UNRECORDED)
            return
        failure = failure_of(
            error, attempt=message.attempt, at=self._clock.now(), kind="unsettleable"
        )
        dead = Dead(reason=DeadReason.UNSETTLEABLE, failure=failure)
        self.add(AttemptEnd(MessageSettlement(message=message, outcome=dead), end.until))

    def _give_up(self, batch: list[AttemptEnd]) -> None:
        if batch:
            self._wrote(batch, UNRECORDED)
