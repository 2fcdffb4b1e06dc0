"""Calling ports: plain functions and coroutines, faults, time limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable

import pytest

from offpath.economy.ledger.ports import PortCalls, PortSilent, ProviderStatus
from offpath.economy.testing import FakeProvider, Killed, Mode
from offpath.model.ledger.faults import ChainBroken, ProviderFailed
from offpath.model.ledger.money import Currency, Money, usd
from offpath.runtime.clock import SystemClock
from offpath.testing import ManualClock
from tests.unit.jobs.worker.rig import until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def calls(clock: ManualClock) -> AsyncIterator[PortCalls]:
    made = PortCalls(lambda: clock)
    yield made
    made.close()


async def test_plain_functions_run_in_a_thread_and_coroutines_in_the_loop(
    calls: PortCalls,
) -> None:
    def plain(given: int) -> tuple[int, int]:
        return given, threading.get_ident()

    async def coroutine(given: int) -> tuple[int, int]:
        return given, threading.get_ident()

    def mixed(given: int) -> Awaitable[tuple[int, int]]:
        return coroutine(given)

    here = threading.get_ident()
    value, thread = await calls.call("plain", plain, 7, timeout=1)
    assert value == 7
    assert thread != here
    assert await calls.call("coroutine", coroutine, 8, timeout=1) == (8, here)
    assert await calls.call("mixed", mixed, 9, timeout=1) == (9, here)


async def test_what_a_port_raises_is_a_failure_that_may_go_away(calls: PortCalls) -> None:
    async def raises() -> None:
        raise KeyError("card 4242")

    with pytest.raises(ProviderFailed) as caught:
        await calls.call("the provider", raises, timeout=1)
    assert caught.value.retryable
    assert str(caught.value) == "the provider failed: KeyError"
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_fault_of_the_ledger_comes_as_it_is(calls: PortCalls) -> None:
    async def raises() -> None:
        raise ChainBroken("altered")

    with pytest.raises(ChainBroken, match="altered"):
        await calls.call("the provider", raises, timeout=1)


async def test_a_port_that_cancels_itself_has_failed(calls: PortCalls) -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ProviderFailed, match="cancelled"):
        await calls.call("the provider", cancels, timeout=1)


async def test_the_end_of_the_process_is_no_failure_of_a_port(calls: PortCalls) -> None:
    provider = FakeProvider()
    provider.script(Mode.KILL)
    with pytest.raises(Killed):
        await calls.call("submit", provider.submit, "p1", "usr_a", usd(1), timeout=1)


async def test_a_call_that_takes_too_long_is_left(calls: PortCalls, clock: ManualClock) -> None:
    provider = FakeProvider()
    provider.script(Mode.HANG)
    call = asyncio.ensure_future(
        calls.call("submit", provider.submit, "p1", "usr_a", usd(1), timeout=30)
    )
    await until(lambda: clock.sleeping > 0)
    clock.advance(30)
    with pytest.raises(PortSilent, match=r"longer than 30 s.*unknown"):
        await call
    assert list(provider.accepted) == ["p1"]


async def test_a_time_limit_of_the_ports_own_is_silence_too(calls: PortCalls) -> None:
    async def times_out() -> None:
        raise TimeoutError

    with pytest.raises(PortSilent, match="unknown") as caught:
        await calls.call("the provider", times_out, timeout=1)
    assert (caught.value.code, caught.value.retryable) == ("PROVIDER.FAILURE", True)


# -- the fake provider -----------------------------------------------------------------------------


async def test_a_key_is_paid_once_however_often_it_is_asked_for() -> None:
    """M1: each way in which a provider answers badly."""
    provider = FakeProvider()
    provider.script(Mode.TIME_OUT, Mode.REFUSE)
    with pytest.raises(TimeoutError):
        await provider.submit("p1", "usr_a", usd(1))
    with pytest.raises(ConnectionError):
        await provider.submit("p2", "usr_a", usd(2))
    assert await provider.submit("p1", "usr_a", usd(1)) == "ref_p1"
    assert await provider.submit("p2", "usr_a", usd(2)) == "ref_p2"
    assert provider.calls == ["p1", "p2", "p1", "p2"]
    assert {key: paid.amount for key, paid in provider.accepted.items()} == {
        "p1": usd(1),
        "p2": usd(2),
    }


async def test_a_provider_may_call_back_before_it_answers() -> None:
    provider = FakeProvider()
    seen: list[tuple[str, str, bool]] = []

    async def callback(key: str, ref: str) -> None:
        seen.append((key, ref, answered))

    answered = False
    provider.callback = callback
    provider.script(Mode.CALL_BACK)
    ref = await provider.submit("p1", "usr_a", Money(Currency.USD, 1))
    answered = True
    assert seen == [("p1", ref, False)]


async def test_a_provider_tells_what_it_is_told_to() -> None:
    provider = FakeProvider()
    assert provider.status is not None
    assert provider.find is not None
    assert await provider.status("ref_p1") is ProviderStatus.UNKNOWN
    provider.reports(ProviderStatus.SETTLED, "ref_p1")
    provider.reports(ConnectionError("down"))
    assert await provider.status("ref_p1") is ProviderStatus.SETTLED
    with pytest.raises(ConnectionError):
        await provider.status("ref_p2")
    assert await provider.find("p1") is None
    await provider.submit("p1", "usr_a", usd(1))
    assert await provider.find("p1") == "ref_p1"
    bare = FakeProvider(probe=False, find=False)
    assert (bare.status, bare.find) == (None, None)


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_plain_port_that_would_end_the_process_has_failed(
    end: type[BaseException],
) -> None:
    def port() -> None:
        raise end

    calls = PortCalls(SystemClock)
    try:
        with pytest.raises(ProviderFailed, match="the provider failed"):
            await calls.call("the provider", port, timeout=20.0)
    finally:
        calls.close()
