"""The ports of an economy to its host: a payment provider, a directory, a feed, an anchor, a
signer.

(The signer is :class:`offpath.economy.ledger.signatures.Signer`.)

Each method may be a coroutine or a plain function; plain ones run in a thread, so they may block.
What a port raises that is none of offpath's own errors becomes ``ProviderFailed``, which is tried
again. Each call has a time limit; after it the outcome is unknown, and the call is repeated later
with the same key.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from offpath.economy.ledger.reconciliation import Pulled, Window
from offpath.economy.ledger.signatures import Signer
from offpath.model.ledger.faults import LedgerError, ProviderFailed
from offpath.model.ledger.money import Money
from offpath.model.ledger.records import Checkpoint
from offpath.runtime.clock import Clock
from offpath.runtime.seats import seated, threaded
from offpath.runtime.threads import Threads

PORT_THREADS = 64
"""Threads for plain functions of ports: as many as rows that a pass takes at once."""


class ProviderStatus(StrEnum):
    """The answer of a provider about a payout that it took."""

    PENDING = "PENDING"
    SETTLED = "SETTLED"
    FAILED = "FAILED"
    RETURNED = "RETURNED"
    """It was paid, and came back."""
    UNKNOWN = "UNKNOWN"

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class PayoutProvider(Protocol):
    """Pays sellers in real money.

    It may also have ``status(provider_ref) -> ProviderStatus``, by which payouts that nobody
    reported on come to an end, and ``find(key) -> str | None``, which tells the reference of what
    was taken under a key: it is asked before a payout is submitted again and before it is given up.
    """

    def submit(self, key: str, user: str, amount: Money) -> str | Awaitable[str]:
        """Take a payout of ``amount`` (USD) to ``user``; returns the provider's reference.

        It must pay once per ``key``, however often it is asked, and give the same reference again.
        """
        ...


class PayeeDirectory(Protocol):
    """Knows who may be paid."""

    def cleared(self, user: str) -> bool | Awaitable[bool]:
        """True if ``user`` may be paid out."""
        ...


class ReconcileFeed(Protocol):
    """Has both sides of a stretch of time: what the processor cleared, and what we recorded."""

    def pull(self, window: Window) -> Pulled | Awaitable[Pulled]:
        """Give the records of a window."""
        ...


class CheckpointAnchor(Protocol):
    """Keeps checkpoints where whoever can alter the database cannot reach them."""

    def publish(self, checkpoint: Checkpoint) -> object:
        """Keep a checkpoint. A repeat of its id changes nothing."""
        ...

    def latest(self) -> Checkpoint | Awaitable[Checkpoint | None] | None:
        """Give the one that was published last."""
        ...


class Ports(Struct, frozen=True, kw_only=True):
    """The ports that a host has connected, and how many seconds a call may take.

    What is None is not there, and what needs it rests.
    """

    provider: PayoutProvider | None = None
    directory: PayeeDirectory | None = None
    feed: ReconcileFeed | None = None
    anchor: CheckpointAnchor | None = None
    signer: Signer | None = None
    provider_timeout: float = 30.0
    directory_timeout: float = 10.0
    feed_timeout: float = 60.0
    anchor_timeout: float = 10.0


class PortSilent(ProviderFailed):
    """A port gave no answer in time: whether it did what it was asked for is unknown."""


class PortCalls:
    """Calls ports: coroutines as they are, plain functions in threads, each with a time limit."""

    def __init__(self, clock: Callable[[], Clock]) -> None:
        self._clock = clock
        self._threads: Threads | None = None

    async def call(
        self,
        what: str,
        function: Callable[..., Any],
        *args: object,
        timeout: float,  # noqa: ASYNC109 - the clock's, which tests move
    ) -> Any:  # noqa: ANN401 - the port's
        """The port's answer. Raises ``ProviderFailed`` for whatever it raises; its kind
        ``PortSilent`` for a ``TimeoutError``, and when it takes longer than ``timeout`` seconds.
        Errors of the ledger come as they are.
        """
        task: asyncio.Task[Any] = asyncio.ensure_future(self._begun(function, args))
        over = asyncio.Event()
        task.add_done_callback(lambda _: over.set())
        try:
            in_time = await self._clock().wait(over, timeout)
        except BaseException:
            task.cancel()
            raise
        if not in_time:
            task.cancel()
            task.add_done_callback(_seen)
            raise PortSilent(
                f"{what} took longer than {timeout:g} s: whether it was done is unknown"
            )
        return _answer(what, task)

    def close(self) -> None:
        """End the threads. Idempotent."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()

    async def _begun(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:  # noqa: ANN401 - the port's
        call = partial(function, *args)
        target = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
        if inspect.iscoroutinefunction(target):
            return await seated(call)
        if self._threads is None:
            self._threads = Threads(PORT_THREADS, "offpath-port")
            weakref.finalize(self, self._threads.close)
        return await threaded(self._threads.run, call)


def _answer(what: str, task: asyncio.Task[Any]) -> Any:  # noqa: ANN401 - the port's
    if task.cancelled():
        raise ProviderFailed(f"{what} was cancelled by itself")
    error = task.exception()
    if error is None or isinstance(error, LedgerError) or not isinstance(error, Exception):
        return task.result()
    if isinstance(error, TimeoutError):
        raise PortSilent(
            f"{what} gave no answer in time: whether it was done is unknown"
        ) from error
    # Its text may hold what nobody should read: the cause is for the log.
    raise ProviderFailed(f"{what} failed: {type(error).__name__}") from error


def _seen(task: asyncio.Task[Any]) -> None:
    """Nobody waits for what comes after the time limit."""
    if not task.cancelled():
        task.exception()
