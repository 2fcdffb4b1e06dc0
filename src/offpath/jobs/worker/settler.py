"""Recording how attempts ended: what has gathered goes in one commit, one commit at a time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from offpath.errors import AppClosed, CapabilityMissing, StoreError, StoreRejected
from offpath.jobs.values.run import Interruption, silent
from offpath.jobs.worker.locked import Locked
from offpath.model import fan_out
from offpath.model.settlement import Retry, Settled, SettleStatus
from offpath.model.tally import Turn, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.jobs.worker.judge import Judge
    from offpath.model.settlement import Outcome, Settlement
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

BATCH = 500
"""Most settlements in one commit."""
TOLD = 10.0
"""Seconds after which a worker is not ready whose ends are not recorded."""
# First with the store's words in its failure, then with nothing foreign in it.
_REFUSALS = 2
"""The number of times that an end is rewritten when the store refuses it."""
PROBE = 0.5
"""Seconds between two tries of what the store could not take for reasons of its own."""
_VALUES = (StoreRejected, CapabilityMissing)
"""The errors of a store that are about the values it was given, and not about itself."""
_TROUBLE = (StoreError, AppClosed, OSError, MemoryError)

Ending = tuple["Run", "Settlement"]


class Settler:
    """Keeps ended attempts until the store has taken them.

    An outage loses nothing: what could not be sent stays first in line, and repeating a
    settlement is safe because the store's fence takes it once. Only what the store says of an
    end's own values is charged to its job. Trouble of the store's own (a right that is missing, a
    table that is, an error that nobody knows) is not: such an end is set aside and tried again
    until it goes, and holds up no other.
    """

    def __init__(
        self,
        store: Store,
        judge: Judge,
        clock: Clock,
        *,
        done: Callable[[Run, Settlement, Settled], None],
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._judge = judge
        self._done = done
        self._report = report
        self._monotonic = clock.monotonic
        self._line: deque[Ending] = deque()
        self._aside: deque[Ending] = deque()
        self._tried_at = 0.0
        self._trouble: Exception | None = None
        self._locked = Locked(clock.monotonic)
        self._sent: dict[Run, Settlement] = {}
        self._refusals: dict[Run, int] = {}
        self.wake: Callable[[], None] = silent
        """Makes the next flush come soon; set by whoever repeats it."""

    def __len__(self) -> int:
        """The number of ends that are not recorded yet."""
        return len(self._line) + len(self._sent) + len(self._aside) + len(self._locked)

    def oldest(self) -> tuple[Run, float] | None:
        """The run whose end has waited longest to be recorded, with the seconds; None: none has.

        May be called from any thread.
        """
        now = self._monotonic()
        # Copied in one step: another thread may ask while the loop's sends the next batch.
        firsts = (next(iter(tuple(self._sent)), None), self._locked.oldest, *self._next_in_line())
        aged = [(now - run.ended_at, run) for run in firsts if run and run.ended_at is not None]
        if not aged:
            return None
        age, run = max(aged, key=lambda one: one[0])
        return run, age

    def _next_in_line(self) -> tuple[Run, ...]:
        try:
            # Asked from the guard's thread as well, while the loop's thread takes ends out of the
            # line.
            return (self._line[0][0],)
        except IndexError:
            return ()

    def unrecorded_for(self) -> float:
        """For how many seconds the oldest end has not been recorded."""
        oldest = self.oldest()
        return 0.0 if oldest is None else oldest[1]

    def put(self, run: Run, settlement: Settlement) -> None:
        """Record this end as soon as may be."""
        self._line.append((run, settlement))
        if len(self._line) == 1:  # a longer line has woken it already, or is being flushed
            self.wake()

    async def flush(self) -> bool | float | Turn | None:
        """Record what has gathered, at most one batch; returns when there is more to do.

        Raises what the store raised when it may be tried again; then nothing is lost from the
        line. The turn is degraded while ends are set aside.
        """
        # Behind the line: what waited for a lock must not delay ends that nothing holds up.
        self._line.extend(self._locked.due())
        batch = self._next_batch()
        if batch:
            await self._send(batch)
        # At its own pace: a store that refuses some ends is not asked about them in every turn.
        if self._aside and self._monotonic() >= self._tried_at + PROBE:
            await self._probe()
        if self._aside:
            return self._degraded()
        return True if self._line else self._locked.due_in

    def _degraded(self) -> Turn:
        cause = f"{len(self._aside)} ends are not recorded yet, for the store says: {self._trouble}"
        again = True if self._line else PROBE
        return Turn(verdict=Verdict.DEGRADED, again=again, cause=cause)

    async def _send(self, batch: list[Ending]) -> None:
        # On their way they are in no line. A flush that is cancelled finds them here and loses
        # none.
        self._sent = dict(batch)
        try:
            await self._settle(batch)
        finally:
            if self._sent:  # no answer for these: first in line again
                self._line.extendleft(reversed(self._sent.items()))
                self._sent = {}
                self.wake()

    async def _probe(self) -> None:
        """Try one of those set aside, each in turn; when it goes, the others may go too."""
        # Each in its turn, so that one that never goes does not hide others that would.
        ending = self._aside.popleft()
        await self._send([ending])
        if ending not in self._aside:
            self._line.extend(self._aside)
            self._aside.clear()

    def _next_batch(self) -> list[Ending]:
        line, batch, jobs = self._line, list[Ending](), 0
        while line and len(batch) < BATCH:
            jobs += len(line[0][1].effects.jobs)
            if jobs > fan_out.WHOLE and batch:  # a commit that makes very many holds up everybody
                break
            batch.append(line.popleft())
        return batch

    async def _settle(self, batch: list[Ending]) -> None:
        try:
            answers = await self._store.settle([settlement for _, settlement in batch])
        except Exception as error:
            if isinstance(error, StoreError) and error.retryable:
                raise
            if isinstance(error, _TROUBLE) and not isinstance(error, _VALUES):
                await self._settle_beside(batch, error)
            else:  # a value that the backend chokes on
                await self._settle_apart(batch, error)
        else:
            for (run, settlement), answer in zip(batch, answers, strict=True):
                self._answered(run, settlement, answer)

    async def _settle_beside(self, batch: list[Ending], error: Exception) -> None:
        """The store has trouble of its own: with all ends, if the first alone has it too."""
        # An outage fails the first end, too, and costs one try instead of one for each end. If only
        # some rows are bad, halves find them in few tries.
        first, rest = batch[:1], batch[1:]
        if not rest:
            self._set_aside(batch, error)
            return
        await self._settle(first)
        if first[0] in self._aside:
            self._set_aside(rest, error)
            return
        middle = (len(rest) + 1) // 2
        for part in (rest[:middle], rest[middle:]):
            if part:
                await self._settle(part)

    def _set_aside(self, batch: list[Ending], error: Exception) -> None:
        for run, _ in batch:
            del self._sent[run]
        if not self._aside:
            self._report(error, "settle")
        self._aside.extend(batch)
        self._trouble, self._tried_at = error, self._monotonic()

    async def _settle_apart(self, batch: list[Ending], error: Exception) -> None:
        """One end that cannot be stored must not hold back the others of its batch."""
        if len(batch) > 1:
            middle = len(batch) // 2
            for part in (batch[:middle], batch[middle:]):
                await self._settle(part)
            return
        run, settlement = batch[0]
        answer = Settled(id=run.job.id, status=SettleStatus.REFUSED, error=error)
        self._answered(run, settlement, answer)

    def _answered(self, run: Run, settlement: Settlement, answer: Settled) -> None:
        del self._sent[run]
        if answer.status is SettleStatus.BUSY:
            # Another transaction holds the row. The others of the batch must not wait for that.
            self._locked.add(run, settlement)
            return
        # A lost job is another worker's: rewriting its end would only meet the fence.
        if answer.status is SettleStatus.REFUSED and run.interrupted is not Interruption.LOST:
            self._refused(run, settlement, answer)
            return
        if self._refusals:
            self._refusals.pop(run, None)
        self._done(run, settlement, answer)

    def _refused(self, run: Run, settlement: Settlement, answer: Settled) -> None:
        refusals = self._refusals[run] = self._refusals.get(run, 0) + 1
        self._report(answer.error or RuntimeError("the store refused an end"), "settle")
        if refusals > _REFUSALS:
            # Nothing of ours is left in it: let the lease run out, and the delivery count decide.
            del self._refusals[run]
            self._done(run, settlement, answer)
            return
        if isinstance(answer.error, StoreError) and answer.error.retryable:
            self.put(run, settlement)  # nothing was written, and nothing is wrong with it
            return
        first = refusals == 1
        if isinstance(settlement.outcome, Retry):
            outcome: Outcome = self._judge.retried(run, settlement.outcome)
        elif first:
            outcome = self._judge.refused(run, answer.error)
        else:
            outcome = self._judge.unsettleable(run)
        self.put(run, self._judge.settlement(run, outcome))
