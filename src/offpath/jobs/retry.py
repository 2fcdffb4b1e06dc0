"""``offpath.retry``: call something until it succeeds, without a queue."""

from __future__ import annotations

import inspect
import logging
import random as _random
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Final, TypeVar, overload

from msgspec import UNSET, Struct, UnsetType

from offpath.errors import Abort, InvalidArgument
from offpath.model.checks import seconds
from offpath.model.retry import (
    RetryOptions,
    RetryPolicy,
    as_retry,
    custom_delay,
    delay,
    merged_retry,
)
from offpath.runtime.clock import Clock, SystemClock

T = TypeVar("T")
Verdict = bool | float | None
"""The answer of ``on``: False stops, a number is the least wait in seconds, anything else goes
on.
"""

Random = Callable[[], float]

_log = logging.getLogger("offpath.retry")
_SYSTEM: Final = SystemClock()


class RetryState(Struct, frozen=True, kw_only=True):
    """The state of a retried call; given to the function if it takes an argument."""

    started_at: datetime
    attempt: int
    """1 for the first call."""
    attempts: int
    last_attempt_at: datetime
    """The time when the present attempt began."""
    last_error: Exception | None = None


class _Defaults:
    """The defaults of the whole process; only :func:`set_retry_defaults` changes them."""

    options: RetryOptions | None = None


def set_retry_defaults(options: RetryOptions | RetryPolicy | int | None) -> None:
    """Set what :func:`retry` uses where a call says nothing; None restores the built-in values.

    It concerns this helper alone. Jobs take their defaults from their task and app.
    """
    _Defaults.options = None if options is None else as_retry(options)


class _Hooks(Struct, frozen=True, kw_only=True):
    """The callbacks of the caller, for decisions and for reports."""

    on: Callable[[Exception], object]
    success: Callable[[Any, RetryState], object] | None
    retry: Callable[[Exception, RetryState], object] | None
    error: Callable[[Exception, RetryState], object] | None
    error_result: object


class _Course:
    """The decisions of one retried call; knows neither how to call nor how to sleep."""

    def __init__(
        self, policy: RetryOptions | RetryPolicy | int | None, hooks: _Hooks, clock: Clock
    ) -> None:
        given = None if policy is None else as_retry(policy)
        self._policy, self._function = merged_retry((given, _Defaults.options))
        self._hooks = hooks
        self._clock = clock
        self._started = clock.now()
        self._attempt = 0
        self._error: Exception | None = None

    def begin(self) -> RetryState:
        """Start the next attempt."""
        self._attempt += 1
        return RetryState(
            started_at=self._started,
            attempt=self._attempt,
            attempts=self._policy.attempts,
            last_attempt_at=self._clock.now() if self._attempt > 1 else self._started,
            last_error=self._error,
        )

    def decide(self, error: Exception) -> object:
        """The caller's verdict, or an awaitable of it."""
        return self._hooks.on(error)

    def pause(self, error: Exception, verdict: object, random: Random) -> float | None:
        """Seconds to wait before the next attempt, None when there is none."""
        self._error = error
        if verdict is False or not self._policy.allows(self._attempt):
            return None
        plain = verdict is None or verdict is True
        floor = 0.0 if plain else seconds(verdict, "what `on` returned")
        return max(floor, self._backoff(random))

    def retrying(self, error: Exception, state: RetryState) -> None:
        """Tell that another attempt follows."""
        _tell("on_retry", self._hooks.retry, error, state)

    def succeeded(self, value: Any, state: RetryState) -> Any:  # noqa: ANN401 - the caller's value
        """Tell, and return the value."""
        _tell("on_success", self._hooks.success, value, state)
        return value

    def give_up(self, error: Exception, state: RetryState) -> object:
        """The value for it, or raise the error that was meant."""
        default = self._hooks.on is _stop_on_abort
        cause = error.__cause__ if default and isinstance(error, Abort) else None
        final = cause if isinstance(cause, Exception) else error
        _tell("on_error", self._hooks.error, final, state)
        if self._hooks.error_result is UNSET:
            raise final
        return self._hooks.error_result

    def _backoff(self, random: Random) -> float:
        if self._function is not None:
            return custom_delay(self._function, self._attempt)
        return delay(self._policy, self._attempt, random())


def _tell(
    name: str, hook: Callable[[Any, RetryState], object] | None, value: object, state: RetryState
) -> None:
    """Call a hook if it is there; one that raises changes nothing."""
    if hook is None:
        return
    try:
        hook(value, state)
    except Exception:  # noqa: BLE001 - whatever a hook raises, the call's outcome stands
        _log.warning("the %s hook of offpath.retry raised", name, exc_info=True)


def _stop_on_abort(error: Exception) -> Verdict:
    return not isinstance(error, Abort)


@overload
def retry(
    fn: Callable[[], Coroutine[Any, Any, T]] | Callable[[RetryState], Coroutine[Any, Any, T]],
    policy: RetryOptions | RetryPolicy | int | None = None,
    *,
    on: Callable[[Exception], Verdict | Awaitable[Verdict]] | None = None,
    on_success: Callable[[T, RetryState], object] | None = None,
    on_retry: Callable[[Exception, RetryState], object] | None = None,
    on_error: Callable[[Exception, RetryState], object] | None = None,
    error_result: T | UnsetType = UNSET,
    clock: Clock = ...,
    sleep: Callable[[float], Awaitable[None]] | None = None,
    random: Random = ...,
) -> Coroutine[Any, Any, T]: ...
@overload
def retry(
    fn: Callable[[], T] | Callable[[RetryState], T],
    policy: RetryOptions | RetryPolicy | int | None = None,
    *,
    on: Callable[[Exception], Verdict] | None = None,
    on_success: Callable[[T, RetryState], object] | None = None,
    on_retry: Callable[[Exception, RetryState], object] | None = None,
    on_error: Callable[[Exception, RetryState], object] | None = None,
    error_result: T | UnsetType = UNSET,
    clock: Clock = ...,
    sleep: Callable[[float], None] | None = None,
    random: Random = ...,
) -> T: ...
def retry(
    fn: Callable[..., Any],
    policy: RetryOptions | RetryPolicy | int | None = None,
    *,
    on: Callable[[Exception], Any] | None = None,
    on_success: Callable[[Any, RetryState], object] | None = None,
    on_retry: Callable[[Exception, RetryState], object] | None = None,
    on_error: Callable[[Exception, RetryState], object] | None = None,
    error_result: Any = UNSET,
    clock: Clock = _SYSTEM,
    sleep: Callable[[float], Any] | None = None,
    random: Random = _random.random,
) -> Any:
    """Call ``fn`` until it succeeds or its attempts are used up; then raise its last error.

    ``fn`` may be sync or async (then await the result) and may take the :class:`RetryState`.
    ``policy`` is an int (attempts) or :class:`RetryOptions`, for example ``Backoff.half_jitter()``.

    ``on(error)`` decides about each error: False stops, a number is the least wait in seconds,
    anything else goes on; it may be async for an async ``fn``. By default only
    :class:`offpath.Abort` stops, and the error it was raised from comes out (or itself).
    ``on_success``, ``on_retry`` (before each wait) and ``on_error`` (once, at the end) are told.
    ``error_result`` is returned instead of raising the last error. ``clock``, ``sleep`` and
    ``random`` are for tests.
    """
    hooks = _Hooks(
        on=on or _stop_on_abort,
        success=on_success,
        retry=on_retry,
        error=on_error,
        error_result=error_result,
    )
    course = _Course(policy, hooks, clock)
    call = _caller(fn)
    if inspect.iscoroutinefunction(inspect.unwrap(fn)):
        return _async(call, course, sleep or clock.sleep, random)
    return _sync(call, course, sleep or time.sleep, random)


async def _async(
    call: Callable[[RetryState], Awaitable[Any]],
    course: _Course,
    sleep: Callable[[float], Awaitable[None]],
    random: Random,
) -> object:
    while True:
        state = course.begin()
        try:
            return course.succeeded(await call(state), state)
        except Exception as error:  # noqa: BLE001 - deciding about every error is the purpose
            verdict = course.decide(error)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            pause = course.pause(error, verdict, random)
            if pause is None:
                return course.give_up(error, state)
            course.retrying(error, state)
        await sleep(pause)


def _sync(
    call: Callable[[RetryState], Any],
    course: _Course,
    sleep: Callable[[float], None],
    random: Random,
) -> object:
    while True:
        state = course.begin()
        try:
            return course.succeeded(call(state), state)
        except Exception as error:  # noqa: BLE001 - deciding about every error is the purpose
            pause = course.pause(error, _now(course.decide(error)), random)
            if pause is None:
                return course.give_up(error, state)
            course.retrying(error, state)
        sleep(pause)


def _now(verdict: object) -> object:
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise InvalidArgument("an async `on` needs an async function to retry")
    return verdict


def _caller(fn: Callable[..., Any]) -> Callable[[RetryState], Any]:
    """Call ``fn`` with the state only if it has a place for it."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # some builtins have no signature; they do not know our state
        parameters = ()  # type: ignore[assignment]
    takes_state = any(
        each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
        and each.default is each.empty
        for each in parameters
    )
    return fn if takes_state else lambda _state: fn()
