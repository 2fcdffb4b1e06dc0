"""The verbs of a handler's context whose effects outlive the attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime, timedelta

    from offpath.jobs.handler.durable.book import StepBook
    from offpath.jobs.values.job import Job

P = ParamSpec("P")
R = TypeVar("R")


class DurableVerbs:
    """Steps, sleeps and waits of one attempt. Sync handlers call them with ``ctx.blocking``.

    An attempt that sleeps or waits ends there: its slot is given back and nothing is counted. When
    the job goes on, the handler runs again from its first line and passes what is recorded.
    """

    __slots__ = ()

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def step(
        self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``fn`` once in the job's life and record what it returns: ``ctx.step("pay", pay)``.

        A later attempt gets the recorded result and does not call it again. A step that raises
        records nothing. The result goes through the codec, by the return annotation of ``fn``, and
        is returned as it was recorded. A sync ``fn`` runs in a thread. Steps beside each other
        (``asyncio.gather``) are fine.

        The record is written after the call: a process that dies between the two calls ``fn``
        again, so what it does outside should bear that (an idempotency key: the job's id and the
        step's name). Raises what ``fn`` raises, ``StepError`` when the name was used before in this
        attempt, ``ResultError`` when the result is not what the annotation says, cannot be encoded
        or is over ``max_result_bytes``, ``StoreUnavailable`` when it could not be recorded (the
        attempt fails then as by any error), and ``LeaseLost``. ``StepError`` and ``ResultError``
        end the job as dead at once: a retry would call ``fn`` again, for nothing.
        """
        from offpath.jobs.handler.durable.steps import step

        return await step(self._opened(), name, fn, args, kwargs)

    async def sleep(self, delay: float | timedelta, *, name: str | None = None) -> None:
        """Go on ``delay`` from now (seconds or timedelta), without holding a slot meanwhile.

        However short it is, the attempt ends: within one, ``asyncio.sleep`` is the cheaper pause.
        The time to wake is recorded at the first call. Sleeps are told apart by their order, or by
        ``name``; give names where the order may change. Raises ``StepError``, and the errors of
        :meth:`step` about recording.
        """
        from offpath.jobs.handler.durable.waits import sleep

        await sleep(self._opened(), delay, name)

    async def sleep_until(self, moment: datetime, *, name: str | None = None) -> None:
        """Sleep as :meth:`sleep` does, until an aware datetime; a time that has passed does not end
        the attempt.
        """
        from offpath.jobs.handler.durable.waits import sleep_until

        await sleep_until(self._opened(), moment, name)

    @overload
    async def wait_for(
        self,
        event: str,
        /,
        *,
        type: type[R],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as below
        key: str | None = None,
        name: str | None = None,
    ) -> R: ...
    @overload
    async def wait_for(
        self,
        event: str,
        /,
        *,
        type: None = None,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as below
        key: str | None = None,
        name: str | None = None,
    ) -> Any: ...  # noqa: ANN401 - any payload
    async def wait_for(
        self,
        event: str,
        /,
        *,
        type: Any = None,  # noqa: A002 - the word for it
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - it outlives this call
        key: str | None = None,
        name: str | None = None,
    ) -> Any:
        """Wait for ``app.signal(job, event, payload)``; returns the payload, read as ``type``.

        A signal that was sent before is taken at once, each by one wait, the oldest first. Else the
        attempt ends and the job is blocked: it takes no slot, is not polled, and survives every
        restart. ``key`` waits for what is sent to that key instead of to this job. Waits for the
        same event are told apart by their order, or by ``name``.

        ``timeout`` counts from the first call. When it is over the wait raises ``SignalTimeout``,
        and does so at every later attempt. Raises ``StepError``, the errors of :meth:`step` about
        recording, and ``SignalError`` when the payload is not a ``type`` and no other signal has
        come: not caught, it ends the job as dead at once (``bad_input``), and the payload is kept
        with the job, for a redrive.
        """
        from offpath.jobs.handler.durable.waits import wait_for

        return await wait_for(self._opened(), event, type, timeout, key, name)

    async def on_abort(self, undo: Job[Any, Any], /, *, name: str | None = None) -> None:
        """Run the job ``undo`` should this job end dead or cancelled, whatever brings that about.

        Recorded now, once (told apart by their order, or by ``name``), also when this attempt
        fails. The undo jobs run in reverse order, each after the one before it has ended, in a
        group of their own with this job as their parent, exactly once; none when the job succeeds.
        Its unique key and group policy do not count.

        Call it before the step that it undoes, and let the undo bear that the step never ran: a
        cancellation may come between the two. Raises ``StepError`` and the errors of :meth:`step`
        about recording.
        """
        from offpath.jobs.handler.durable.undo import on_abort

        await on_abort(self._opened(), undo, name)

    def _opened(self) -> StepBook:
        """The book of this attempt's steps. In the loop's thread."""
        raise NotImplementedError
