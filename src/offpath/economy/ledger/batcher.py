"""Many callers, one transaction: what is submitted while a transaction runs goes into the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from offpath.errors import StoreRejected
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.faults import LedgerError, StoreFailed

Post: TypeAlias = Callable[[Sequence[LedgerOp]], Awaitable[list[Decided]]]


class _Waiting(NamedTuple):
    op: LedgerOp
    answer: asyncio.Future[Decided]


class Batcher:
    """Gathers operations for ``post``. A lone one goes at once; under load, batches grow by
    themselves up to ``most``. Order is kept. Belongs to one event loop at a time.
    """

    def __init__(self, post: Post, most: int) -> None:
        self._post = post
        self._most = most
        self._waiting: deque[_Waiting] = deque()
        self._flushing: asyncio.Task[None] | None = None

    def submit(self, op: LedgerOp) -> asyncio.Future[Decided]:
        """The answer of the store to one operation: await it.

        Raises ``StoreFailed``: retryable when the outcome is unknown, so that repeating the same
        key is safe; not retryable when the store refused the operation. A caller that is cancelled
        before its batch began is left out of it; later, its operation is committed without them.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Decided] = loop.create_future()
        if self._flushing is None or self._flushing.get_loop() is not loop:
            self._waiting.clear()  # of a loop that has gone, if of any: nobody waits for it
            self._flushing = loop.create_task(self._flush(), name="offpath economy batch")
        self._waiting.append(_Waiting(op, answer))
        return answer

    async def idle(self) -> None:
        """Return when nothing is being written, nor waits to be."""
        while self._flushing is not None:
            await asyncio.wait({self._flushing})

    async def _flush(self) -> None:
        try:
            while batch := self._next():
                await self._written(batch)
        finally:
            if self._flushing is asyncio.current_task():  # else another loop has begun anew
                self._flushing = None
                # Somebody still waits only when this task was stopped.
                _fail(tuple(self._waiting), StoreFailed("it was stopped before it was written"))
                self._waiting.clear()

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < self._most:
            one = self._waiting.popleft()
            if not one.answer.done():
                batch.append(one)
        return batch

    async def _written(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self._post([one.op for one in batch])
        except StoreRejected as error:
            await self._halved(batch, error)
        except Exception as error:  # noqa: BLE001 - each caller gets it, typed
            _fail(batch, failure(error))
        except BaseException:
            _fail(batch, StoreFailed("it was stopped: whether it was written is unknown"))
            raise
        else:
            for one, decided in zip(batch, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(decided)

    async def _halved(self, batch: list[_Waiting], error: StoreRejected) -> None:
        """The store refused the whole and wrote nothing: find out for whose sake."""
        if len(batch) == 1:
            _fail(batch, failure(error))
            return
        middle = len(batch) // 2
        await self._written(batch[:middle])
        await self._written(batch[middle:])


def failure(error: Exception) -> LedgerError:
    """The error beneath an operation, as a fault; the cause is for logs."""
    if isinstance(error, LedgerError):
        return error
    refused = isinstance(error, StoreRejected)
    known = (
        "the store refused it: nothing was written, and repeating it cannot help"
        if refused
        else "the store failed: whether it was written is unknown, repeat it with the same key"
    )
    fault = StoreFailed(f"{known} ({type(error).__name__})", retryable=not refused)
    fault.__cause__ = error
    return fault


def _fail(batch: Sequence[_Waiting], fault: LedgerError) -> None:
    for one in batch:
        if not one.answer.done():
            # Each gets their own: a traceback grows on the one that is raised.
            mine = type(fault)(str(fault), retryable=fault.retryable)
            mine.__cause__ = fault.__cause__
            one.answer.set_exception(mine)
