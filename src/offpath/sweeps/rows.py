"""One pass row by row: each in its own error boundary and time limit, in the order claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from offpath.errors import Abort, InvalidArgument, OffpathError
from offpath.model.tally import Tally
from offpath.runtime.tasks import Report
from offpath.sweeps.body import Body
from offpath.sweeps.bounds import Bounds, SweepOverdue
from offpath.sweeps.context import SweepContext

FAILED, DEAD, UNRECORDED, TIMED_OUT = "failed", "dead_lettered", "unrecorded", "timed_out"
OVER_LIMIT = "over_limit"
"""Rows that a claim gave beyond the limit: they were not looked at."""
LEFT = "left"
"""Rows not begun because another worker leads; they are due again by their claim."""


class RowPass:
    """The rows of one pass, and what becomes of them. Used once."""

    def __init__(
        self, body: Body, ctx: SweepContext, bounds: Bounds, *, row_timeout: float, report: Report
    ) -> None:
        self._body = body
        self._ctx = ctx
        self._bounds = bounds
        self._row_timeout = row_timeout
        self._report = report
        self._buckets: dict[str, list[str]] = {}
        self._reasons: dict[str, str] = {}
        self._causes: dict[str, Exception] = {}

    async def run(
        self, rows: list[object], limit: int, still: Callable[[], Awaitable[bool]]
    ) -> Tally:
        """Take each row one step; ``still`` tells before each whether the pass may go on."""
        within, beyond = rows[:limit], rows[limit:]
        for index, row in enumerate(within):
            if not await still():
                self._put_all(LEFT, within[index:], index)
                break
            await self._one(row, index)
        self._refuse(beyond, limit)
        for error in self._causes.values():
            self._report(error, f"sweep:{self._ctx.sweep}")
        return Tally(
            buckets={name: tuple(ids) for name, ids in self._buckets.items()},
            reasons=self._reasons,
            more=len(within) >= limit,
        )

    async def _one(self, row: object, index: int) -> None:
        try:
            row_id = self._body.row_id(row)
        except Exception as error:  # noqa: BLE001 - this row's alone: it has no name to advance under
            self._note(f"row {index + 1} of the claim", FAILED, error)
            return
        try:
            bucket = await self._advanced(row, row_id)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            await self._failed(row, row_id, FAILED, SweepRowCancelled(str(error)))
        except Exception as error:  # noqa: BLE001 - the row's alone; reported once a kind
            await self._failed(row, row_id, _bucket_of(error), error)
        else:
            self._put(bucket, row_id)

    async def _failed(self, row: object, row_id: str, bucket: str, error: Exception) -> None:
        """Put a failed row where it belongs, once the sweep was given the chance to record it."""
        if self._body.records_failures:
            record = partial(self._body.failed, self._ctx, row, error, self._ctx.now)
            what = f"recording that row {row_id!r} of the sweep {self._ctx.sweep} failed"
            try:
                named = await self._bounds.run(record, self._row_timeout, what)
                bucket = named or bucket
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                bucket = UNRECORDED
            except Exception as second:  # noqa: BLE001 - reported; others go on
                self._causes.setdefault(f"failed {type(second).__name__}", second)
                bucket = UNRECORDED
        self._note(row_id, bucket, error)

    async def _advanced(self, row: object, row_id: str) -> str:
        what = f"row {row_id!r} of the sweep {self._ctx.sweep}"
        self._bounds.refuse_abandoned(what)
        step = partial(self._body.advance, self._ctx, row, self._ctx.now)
        return await self._bounds.run(step, self._row_timeout, what)

    def _put(self, bucket: str, row_id: str) -> None:
        self._buckets.setdefault(bucket, []).append(row_id)

    def _note(self, row_id: str, bucket: str, error: Exception) -> None:
        self._put(bucket, row_id)
        self._reasons[row_id] = reason_of(error)
        # An abandoned row is told about each time: its work goes on in this process.
        lasting = isinstance(error, SweepOverdue) and error.abandoned
        self._causes.setdefault(row_id if lasting else type(error).__name__, error)

    def _put_all(self, bucket: str, rows: list[object], begin: int) -> None:
        for index, row in enumerate(rows, begin + 1):
            try:
                self._put(bucket, self._body.row_id(row))
            except Exception:  # noqa: BLE001 - not looked at anyway
                self._put(bucket, f"row {index} of the claim")

    def _refuse(self, beyond: list[object], limit: int) -> None:
        if not beyond:
            return
        self._put_all(OVER_LIMIT, beyond, limit)
        error = InvalidArgument(
            f"{self._ctx.sweep}: claim gave more than its limit of {limit} rows; the others were "
            "left alone: put the limit that claim is given into its query"
        )
        self._causes["over limit"] = error


class SweepRowCancelled(OffpathError):
    """Something that a row awaited was cancelled, though nobody had stopped the sweep."""

    code = "sweep_row_cancelled"
    retryable = True


def reason_of(error: BaseException) -> str:
    """An error's code, or its type's name when it is not offpath's own: its text may be secret."""
    return error.code if isinstance(error, OffpathError) else type(error).__name__


def _bucket_of(error: Exception) -> str:
    match error:
        case Abort():
            return DEAD
        case SweepOverdue():
            return TIMED_OUT
        case _:
            return FAILED


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
