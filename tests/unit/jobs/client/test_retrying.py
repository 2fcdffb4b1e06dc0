"""The stand-alone retry helper: spec A.6 and A.28 32-43."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from offpath.errors import Abort, InvalidArgument
from offpath.jobs.retry import RetryState, retry, set_retry_defaults
from offpath.model.retry import Backoff, RetryOptions
from offpath.runtime.clock import ManualClock

FAST = RetryOptions(attempts=3, base=100, factor=2, cap=10_000, jitter=0)


class Flaky:
    """Fails with these errors, one a call, then returns ``value``."""

    def __init__(self, *errors: Exception, value: Any = "ok") -> None:
        self.errors = list(errors)
        self.value = value
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.value


class Log:
    """Collects what hooks are told."""

    def __init__(self) -> None:
        self.retried: list[int] = []
        self.failed: list[Exception] = []
        self.slept: list[float] = []

    def on_retry(self, _error: Exception, state: RetryState) -> None:
        self.retried.append(state.attempt)

    def on_error(self, error: Exception, _state: RetryState) -> None:
        self.failed.append(error)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture(autouse=True)
def no_process_defaults() -> Iterator[None]:
    yield
    set_retry_defaults(None)


def call(flaky: Flaky, log: Log, policy: Any = FAST, **options: Any) -> Any:
    return retry(
        flaky,
        policy,
        on_retry=log.on_retry,
        on_error=log.on_error,
        sleep=log.slept.append,
        clock=ManualClock(),
        **options,
    )


def test_it_is_told_before_each_wait(log: Log) -> None:
    flaky = Flaky(ValueError("1"), ValueError("2"), value=3)
    assert call(flaky, log, RetryOptions(attempts=5)) == 3
    assert log.retried == [1, 2]
    assert log.failed == []


def test_exhausted_raises_the_last_error_and_tells_once(log: Log) -> None:
    last = ValueError("3")
    with pytest.raises(ValueError, match="3") as caught:
        call(Flaky(ValueError("1"), ValueError("2"), last), log)
    assert caught.value is last
    assert log.failed == [last]
    assert log.retried == [1, 2]


def test_error_result_instead_of_raising(log: Log) -> None:
    assert call(Flaky(*[ValueError()] * 3), log, error_result=-1) == -1
    assert call(Flaky(*[ValueError()] * 3), log, error_result=None) is None


def test_the_first_state_says_where_it_starts() -> None:
    clock = ManualClock()
    states: list[RetryState] = []
    retry(lambda state: states.append(state), 3, clock=clock)  # noqa: PLW0108 - has one argument
    assert states == [
        RetryState(started_at=clock.now(), attempt=1, attempts=3, last_attempt_at=clock.now())
    ]


def test_later_states_carry_the_last_error(log: Log) -> None:
    clock = ManualClock()
    states: list[RetryState] = []
    error = ValueError("first")

    def flaky(state: RetryState) -> None:
        states.append(state)
        if state.attempt == 1:
            raise error

    retry(flaky, FAST, clock=clock, sleep=clock.advance)
    assert [state.last_error for state in states] == [None, error]
    assert (states[1].last_attempt_at - states[1].started_at).total_seconds() == 100


def test_abort_raises_what_it_was_raised_from(log: Log) -> None:
    cause = ValueError("cause")
    abort = Abort("stop")
    abort.__cause__ = cause
    flaky = Flaky(abort)
    with pytest.raises(ValueError, match="cause") as caught:
        call(flaky, log)
    assert caught.value is cause
    assert (flaky.calls, log.retried, log.failed) == (1, [], [cause])


def test_abort_without_a_cause_raises_itself(log: Log) -> None:
    with pytest.raises(Abort):
        call(Flaky(Abort("stop")), log)


def test_abort_with_an_error_result_gives_it(log: Log) -> None:
    assert call(Flaky(Abort("stop")), log, error_result="fallback") == "fallback"


def test_on_false_stops_with_the_raw_error(log: Log) -> None:
    flaky = Flaky(LookupError("404"), ValueError())
    with pytest.raises(LookupError, match="404"):
        call(flaky, log, on=lambda error: not isinstance(error, LookupError))
    assert flaky.calls == 1


def test_on_a_number_is_the_least_wait(log: Log) -> None:
    call(Flaky(ValueError(), ValueError()), log, on=lambda _: 5000)
    assert log.slept == [5000, 5000]


def test_on_zero_leaves_the_backoff(log: Log) -> None:
    call(Flaky(ValueError(), ValueError()), log, on=lambda _: 0)
    assert log.slept == [100, 200]


async def test_on_may_be_async(log: Log) -> None:
    async def on(_error: Exception) -> int:
        return 0

    async def sleep(seconds: float) -> None:
        log.slept.append(seconds)

    flaky = Flaky(ValueError(), ValueError())

    async def fn() -> Any:
        return flaky()

    assert await retry(fn, FAST, on=on, sleep=sleep) == "ok"
    assert log.slept == [100, 200]


def test_an_own_on_replaces_the_check_for_abort(log: Log) -> None:
    flaky = Flaky(*[Abort("stop")] * 3)
    with pytest.raises(Abort):
        call(flaky, log, on=lambda _: 0)
    assert flaky.calls == 3


def test_process_wide_defaults(log: Log) -> None:
    set_retry_defaults(1)
    flaky = Flaky(ValueError())
    with pytest.raises(ValueError):
        call(flaky, log, None)
    assert flaky.calls == 1


def test_an_async_on_needs_an_async_function(log: Log) -> None:
    async def on(_error: Exception) -> bool:
        return True

    with pytest.raises(InvalidArgument):
        call(Flaky(ValueError()), log, on=on)


def test_hooks_that_raise_change_nothing(log: Log) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("hook")

    flaky = Flaky(ValueError())
    got = retry(flaky, FAST, on_retry=broken, on_success=broken, sleep=log.slept.append)
    assert got == "ok"


def test_a_custom_function_gives_the_waits(log: Log) -> None:
    call(Flaky(ValueError(), ValueError()), log, Backoff.custom(lambda n: n * 7))
    assert log.slept == [7, 14]


def test_on_success_gets_the_value(log: Log) -> None:
    seen: list[tuple[Any, int]] = []
    retry(
        Flaky(ValueError()),
        FAST,
        sleep=log.slept.append,
        on_success=lambda value, state: seen.append((value, state.attempt)),
    )
    assert seen == [("ok", 2)]


async def test_async_waits_on_the_clock() -> None:
    clock = ManualClock()
    flaky = Flaky(ValueError())

    async def fn() -> Any:
        return flaky()

    async def advance(seconds: float) -> None:
        clock.advance(seconds)

    sleep: Any = advance
    assert await retry(fn, FAST, clock=clock, sleep=sleep) == "ok"
    assert clock.monotonic() == 100


async def test_cancelling_is_not_an_error_to_retry() -> None:
    import asyncio

    calls = 0

    async def fn() -> None:
        nonlocal calls
        calls += 1
        raise asyncio.CancelledError

    waiting: Awaitable[None] = retry(fn, FAST)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert calls == 1
