"""The mover: leases messages, acts on each outside of any transaction, settles them as they end.

Relays, the drains of the inbox and the deliverer of webhooks are movers with different work.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from offpath.events.answers import answered
from offpath.events.flusher import BAD, RELEASED, SNOOZED, UNTRIED, AttemptEnd, Flusher
from offpath.events.lines import Lease, Line, Lines, lines_of
from offpath.events.time_limit import Overtime
from offpath.model.job import DeadReason, unreadable_row
from offpath.model.message import (
    LeasedMessage,
    LeasedMessages,
    MessageRequest,
    MessageSettlement,
    StreamRoom,
)
from offpath.model.settlement import Dead, Released, Retry
from offpath.model.tally import Tally, Turn, Verdict
from offpath.runtime.clock import Clock
from offpath.store.events import EventStore

if TYPE_CHECKING:
    from offpath.errors import PassFailed
    from offpath.model.new import Box
    from offpath.model.relay import MoveRules

QUICK = 0.25
"""A batch that is done within so many seconds lets the next be larger."""
SLOW = 1.0
FULL_WAIT = 1.0
"""The longest a turn waits for room when all that may be in hand is."""
LAST_WAIT = 2.0
"""Real seconds for the last ends to be written when a stop aborts."""


class Work(Protocol):
    """The work of a mover on its messages."""

    box: Box
    rules: MoveRules

    def rooms(self, held: Mapping[str, int], most: int) -> tuple[StreamRoom, ...]:
        """The rooms to ask for: at most ``most`` in all. ``held`` counts the messages in hand by
        stream.
        """
        ...

    async def open(self) -> None:
        """Called before messages are leased; must be cheap when nothing is to be opened."""
        ...

    async def close(self) -> None:
        """Called when the mover stops."""
        ...

    async def act(self, message: LeasedMessage) -> MessageSettlement:
        """Do it. What it raises goes to :meth:`failed`."""
        ...

    async def act_on_many(self, messages: Sequence[LeasedMessage]) -> list[MessageSettlement]:
        """The same for several at once; used where :attr:`MoverTerms.many` is more than one."""
        ...

    def failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """The end of an attempt that raised; over its limit, a ``TimeLimitExceeded``."""
        ...

    def all_failed(self, tally: Tally) -> PassFailed:
        """The error of a pass in which everything failed."""
        ...


class MoverTerms(Struct, frozen=True, kw_only=True):
    """The terms of a mover. Durations in seconds."""

    done: str
    """The bucket of what succeeded."""
    concurrency: int = 50
    """Attempts at once."""
    batch: int = 1_000
    """The most in hand, and leased at once."""
    many: int = 1
    """The number of messages that one attempt may take together."""
    timeout: float = 30.0
    """The longest that one attempt may take."""
    lease_seconds: float = 70.0
    """Messages that could not end before the lease does are given back unbegun."""


class MoverParts(Struct, frozen=True, kw_only=True):
    """The parts of a mover."""

    store: EventStore
    clock: Clock
    new_id: Callable[[], str]
    report: Callable[[BaseException, str], None]
    """Told of what the mover survives. Must not raise."""


class Mover:
    """Moves the messages of some streams. ``step`` is for a loop, ``run_once`` for a caller; one
    mover serves the one or the other.
    """

    def __init__(self, work: Work, terms: MoverTerms, parts: MoverParts) -> None:
        self._work = work
        self._terms = terms
        self._parts = parts
        self._clock = parts.clock
        self._flusher = Flusher(
            parts.store,
            parts.clock,
            self._wrote,
            work.failed,
            done=terms.done,
            report=parts.report,
        )
        self._window = min(terms.concurrency * terms.many, terms.batch)
        self._held: Counter[str] = Counter()
        self._leases: dict[str, Lease] = {}
        self._in_hand = 0
        self._unwritten = 0
        self._queue: deque[Lines] = deque()
        self._suspect: Lines | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = False
        self._overtime = Overtime(terms.timeout, parts.clock)
        self._changed = asyncio.Event()
        self._ending = False
        self._ended: dict[str, list[str]] = {}

    # -- the two ways to drive it ----------------------------------------------------------------

    async def step(self) -> Turn:
        """Take what there is room for and begin it; tells what has ended since the last turn.

        What takes long goes on beside, into later turns.
        """
        self._changed.clear()
        full = self._suspect is not None or self._unwritten > self._window
        room = 0 if full else self._window - (self._in_hand - self._unwritten)
        leased = await self._take(room) if room > 0 else None
        if leased is None:
            busy = self._in_hand > 0
            if busy:
                await self._clock.wait(self._changed, FULL_WAIT)
            return self._turn(again=True if busy else None)  # what has ended has made room
        await self._let_quick_ones_end(written=not (leased.more and leased.messages))
        return self._turn(again=True if leased.more or self._suspect else leased.due_in)

    async def wait_for_room(self, seconds: float) -> None:
        """Wait until something that is in hand ends, for at most ``seconds``."""
        if self._in_hand:
            self._changed.clear()
            await self._clock.wait(self._changed, seconds)

    async def run_once(self, *, limit: int = 100) -> Tally:
        """Take up to ``limit`` due messages, and return when each has ended and is settled.

        The tally does not tell of those that were given back untried.
        Raises a :class:`PassFailed` when all of them failed; their ends are written then.
        """
        self._ended = {}
        try:
            leased = await self._take(limit)
            await self._nothing_in_hand()
        except BaseException:
            await self.stop(0.0)
            raise
        ended, self._ended = self._ended, {}
        tally = Tally(
            buckets={name: tuple(ids) for name, ids in ended.items() if name not in UNTRIED},
            bad=BAD,
            more=leased is not None and (leased.more or RELEASED in ended),
        )
        if tally.verdict is Verdict.FAILED:
            raise self._work.all_failed(tally)
        return tally

    async def stop(self, seconds: float) -> None:
        """Begin nothing more, let what was begun end within ``seconds``, give the rest back."""
        self._ending = True
        try:
            self._release_unbegun()
            end = self._clock.monotonic() + seconds
            while self._in_hand and (left := end - self._clock.monotonic()) > 0:
                self._changed.clear()
                await self._clock.wait(self._changed, left)
            await self._abort()
            await self._work.close()
        finally:
            self._ending = False

    async def _abort(self) -> None:
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WAIT)
        if self._in_hand:
            try:
                await asyncio.wait_for(self._nothing_in_hand(), LAST_WAIT)
            except TimeoutError:
                if (flush := self._flusher.abort()) is not None:
                    await asyncio.wait((flush,))

    async def _nothing_in_hand(self) -> None:
        while self._in_hand:
            self._changed.clear()
            await self._changed.wait()

    def _turn(self, again: bool | float | None) -> Turn:
        ended, self._ended = self._ended, {}
        if again is not True and RELEASED in ended:
            again = True
        counts = {name: len(ids) for name, ids in ended.items()}
        # What was put off was not attempted to its end: it proves neither health nor illness.
        tried = {name: count for name, count in counts.items() if name not in {*UNTRIED, SNOOZED}}
        total = sum(tried.values())
        bad = sum(count for name, count in counts.items() if name in BAD)
        if not total:
            # What was given back untried is not a success that would end a row of failures.
            waits = self._in_hand and not counts
            verdict = Verdict.CLEAN if waits else Verdict.EMPTY
            return Turn(verdict=verdict, counts=counts, again=again)
        if not bad:
            return Turn(counts=counts, again=again)
        verdict = Verdict.FAILED if bad == total else Verdict.DEGRADED
        cause = f"{bad} of {total} messages failed"
        return Turn(verdict=verdict, counts=counts, again=again, cause=cause)

    # -- taking ----------------------------------------------------------------------------------

    async def _take(self, most: int) -> LeasedMessages | None:
        """Lease up to ``most`` and begin them; None when there is no stream with room."""
        rooms = self._work.rooms(self._held, most)
        if not rooms:
            return None
        await self._work.open()
        asked = self._clock.monotonic()
        holder = self._parts.new_id()
        request = MessageRequest(
            box=self._work.box,
            holder=holder,
            streams=rooms,
            limit=most,
            lease_seconds=self._terms.lease_seconds,
        )
        leased = await answered(
            self._parts.store.lease_messages(request),
            LAST_WAIT,
            unwanted=lambda late: self._give_back(late, holder, asked),
        )
        if leased.messages:
            self._begin(leased, holder, rooms, asked, full=len(leased.messages) == most)
        return leased

    def _begin(
        self,
        leased: LeasedMessages,
        holder: str,
        rooms: Sequence[StreamRoom],
        asked: float,
        *,
        full: bool,
    ) -> None:
        lease = self._hold(leased.messages, holder, asked, full=full)
        ordered = frozenset(room.stream for room in rooms if room.ordered)
        lines = lines_of(self._able(leased.messages, lease, ordered), ordered)
        many = self._terms.many
        starts = range(0, len(lines), many)
        self._queue.extend([Lines(lines[at : at + many], lease) for at in starts])
        self._serve_more()
        self._begin_suspect()

    def _hold(self, messages: Line, holder: str, asked: float, *, full: bool) -> Lease:
        lease = Lease(len(messages), asked, asked + self._terms.lease_seconds, full)
        self._leases[holder] = lease
        self._in_hand += len(messages)
        self._held.update(message.stream for message in messages)
        return lease

    def _give_back(self, leased: LeasedMessages, holder: str, asked: float) -> None:
        """Give back the messages of a lease that was cancelled while it was on its way."""
        if leased.messages:
            self._release(leased.messages, self._hold(leased.messages, holder, asked, full=False))

    def _able(self, messages: Line, lease: Lease, ordered: frozenset[str]) -> list[LeasedMessage]:
        """The messages to be acted on now: not the worn out ones, nor suspects and what follows
        them.
        """
        rules = self._work.rules
        able: list[LeasedMessage] = []
        held_up: set[tuple[str, str | None]] = set()
        for message in messages:
            place = (message.stream, message.key)
            if message.unreadable is not None:
                failure = unreadable_row(message.unreadable, message.attempt)
                dead = Dead(reason=DeadReason.UNREADABLE, failure=failure)
                self._end(MessageSettlement(message=message, outcome=dead), lease)
            elif message.deliveries - message.attempt < rules.losses - 1 and place not in held_up:
                able.append(message)
            elif place not in held_up and rules.worn_out(message):
                dead = Dead(reason=DeadReason.WORKER_LOST, failure=rules.lost_failure(message))
                self._end(MessageSettlement(message=message, outcome=dead), lease)
            else:
                follows = place in held_up
                if message.stream in ordered and message.key is not None:
                    held_up.add(place)
                self._set_aside(message, lease, follows=follows)
        return able

    def _set_aside(self, message: LeasedMessage, lease: Lease, *, follows: bool) -> None:
        """Keep one suspect for when nothing else is in hand; give the others back."""
        if self._suspect is None and not follows and self._work.rules.suspect(message):
            self._suspect = Lines(((message,),), lease)
        else:
            self._release((message,), lease)

    # -- acting ----------------------------------------------------------------------------------

    def _serve_more(self) -> None:
        if self._queue and not self._starting and len(self._tasks) < self._terms.concurrency:
            self._starting = True
            task = asyncio.create_task(self._serve(), name="offpath message")
            self._tasks.add(task)
            task.add_done_callback(self._served)
            self._overtime.watch()

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._starting = self._starting and bool(self._tasks)
        self._overtime.forget(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._parts.report(error, "move messages")
        self._serve_more()
        if not self._tasks:
            self._overtime.rest()
        self._changed.set()

    async def _serve(self) -> None:
        """Act on what is queued until there is nothing left; one task of a few."""
        self._starting = False
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - inside of a coroutine
        while self._queue:
            taken = self._queue.popleft()
            # Another one starts when this one has to wait: what ends at once needs one task only.
            self._serve_more()
            lines = taken.lines
            while lines:
                lines = await self._act_on_heads(lines, taken.lease, task)

    async def _act_on_heads(
        self, lines: Sequence[Line], lease: Lease, task: asyncio.Task[None]
    ) -> Sequence[Line]:
        """Act on the first of each line; what is left of those whose turn it still is."""
        begun = self._clock.monotonic()
        if self._ending or begun + self._terms.timeout > lease.until:
            self._release_all(lines, lease)
            return ()
        try:
            settlements = await self._timed([line[0] for line in lines], begun, task)
        except BaseException:
            self._release_all(lines, lease)
            raise
        left: list[Line] = []
        for line, settlement in zip(lines, settlements, strict=True):
            self._end(settlement, lease)
            if len(line) == 1:
                continue
            if isinstance(settlement.outcome, Retry | Released):
                self._release(line[1:], lease)
            else:
                left.append(line[1:])
        return left

    async def _timed(
        self, messages: list[LeasedMessage], begun: float, task: asyncio.Task[None]
    ) -> list[MessageSettlement]:
        work = self._work
        self._overtime.begin(task, begun)
        try:
            if self._terms.many == 1:
                return [await work.act(messages[0])]
            return await work.act_on_many(messages)
        except asyncio.CancelledError as error:
            why = self._overtime.why(task, error)
            return [self._failed(message, why) for message in messages]
        except BaseException as error:  # noqa: BLE001 - a dispatcher may raise anything
            return [self._failed(message, error) for message in messages]
        finally:
            self._overtime.end(task)

    def _failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """The end of an attempt that raised, also when what it raised cannot be made sense of:
        given back instead, it would come again for ever without an attempt being counted.
        """
        try:
            return self._work.failed(message, error)
        except Exception as fault:  # noqa: BLE001 - errors are foreign objects
            return self._work.failed(message, fault)

    # -- ending ----------------------------------------------------------------------------------

    def _end(self, settlement: MessageSettlement, lease: Lease) -> None:
        self._unwritten += 1
        self._flusher.add(AttemptEnd(settlement, lease.until))

    def _release(self, messages: Line, lease: Lease) -> None:
        for message in messages:
            self._end(MessageSettlement(message=message, outcome=_RELEASED), lease)

    def _release_all(self, lines: Sequence[Line], lease: Lease) -> None:
        for line in lines:
            self._release(line, lease)

    def _release_unbegun(self) -> None:
        waiting = [*self._queue, *(() if self._suspect is None else (self._suspect,))]
        self._queue.clear()
        self._suspect = None
        for one in waiting:
            self._release_all(one.lines, one.lease)

    def _wrote(self, ends: Sequence[AttemptEnd], bucket: str) -> None:
        """Ends are in the store, or as good as they will get."""
        messages = [end.settlement.message for end in ends]
        self._in_hand -= len(messages)
        self._unwritten -= len(messages)
        self._held.subtract([message.stream for message in messages])
        self._ended.setdefault(bucket, []).extend([message.id for message in messages])
        for holder, count in Counter([message.holder for message in messages]).items():
            lease = self._leases[holder]
            lease.left -= count
            if not lease.left:
                del self._leases[holder]
                self._adapt(lease)
        self._changed.set()
        self._begin_suspect()

    def _begin_suspect(self) -> None:
        if self._suspect is not None and self._in_hand == 1 and not self._ending:
            self._queue.append(self._suspect)
            self._suspect = None
            self._serve_more()

    def _adapt(self, lease: Lease) -> None:
        """Take more at once while that is done quickly, so that no row waits in hand for long."""
        took = self._clock.monotonic() - lease.began
        terms = self._terms
        if took > SLOW:
            self._window = max(self._window // 2, min(terms.concurrency, terms.batch))
        elif lease.full and took < QUICK:
            self._window = min(self._window * 2, terms.batch)

    async def _let_quick_ones_end(self, *, written: bool) -> None:
        """Let the messages end here and now whose work waits for nothing. They are ``written`` too,
        so that this turn reports them, unless there is more to take meanwhile.
        """
        for _ in range(_TICKS):
            if not self._tasks:
                break
            await asyncio.sleep(0)
        while written and self._in_hand and not self._tasks and not self._queue:
            self._changed.clear()
            await self._changed.wait()


_RELEASED = Released()
_TICKS = 4
"""Rounds of the event loop in which a task that waits for nothing has ended and is known to."""
