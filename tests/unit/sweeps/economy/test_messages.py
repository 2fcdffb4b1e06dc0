"""The relay and the inbox of an economy. §16.71-§16.87, §17.7."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offpath import Backoff
from offpath.economy import (
    Actor,
    Share,
    Spend,
    TopUp,
    credits,
    drain_inbox,
    event_key,
    relay_outbox,
)
from offpath.economy.sweeps.summaries import FailedMessage, InboxSummary, Reasoned, RelaySummary
from offpath.errors import StoreUnavailable
from offpath.events import Event
from offpath.model.ledger.faults import ChainBroken, StoreFailed
from offpath.model.message import MessageState
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

DOWN = ConnectionError("down")


class Outside:
    """The receiver of events; it fails for those whose topic it is told."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.failing: dict[str, list[Exception]] = {}

    async def __call__(self, event: Event) -> None:
        waiting = self.failing.get(event.topic)
        if waiting:
            raise waiting.pop(0)
        self.got.append(event.id)


def outlet(rig: Rig, attempts: int = 10) -> Outside:
    outside = Outside()
    retry = Backoff.constant(30, attempts=attempts)
    rig.app.outbox(dispatcher=outside, retry=retry)
    return outside


async def events(rig: Rig, number: int = 1) -> list[str]:
    for n in range(number):
        await rig.top_up(f"fan-{n}", "1.00")
    page = await rig.app.messages.find(newest=False)
    return [message.id for message in page.items]


# -- the relay -------------------------------------------------------------------------------------


async def test_without_a_dispatcher_events_wait_untouched(rig: Rig) -> None:
    """§16.6."""
    (event,) = await events(rig)
    result = (await rig.sweep("relay"))["relay"]
    assert (result.ok, result.summary) == (True, RelaySummary())
    message = await rig.app.messages.get(event)
    assert (message.state, message.deliveries) == (MessageState.PENDING, 0)


async def test_a_dispatcher_that_comes_after_the_first_pass_is_used(rig: Rig) -> None:
    (event,) = await events(rig)
    assert (await rig.sweep("relay"))["relay"].summary == RelaySummary()
    outside = outlet(rig)
    assert (await rig.sweep("relay"))["relay"].summary == RelaySummary(relayed=(event,))
    assert outside.got == [event]


async def test_events_are_relayed_in_order_and_once(rig: Rig) -> None:
    """§16.71."""
    outside = outlet(rig)
    made = await events(rig, 2)
    assert await relay_outbox(rig) == RelaySummary(relayed=tuple(made))
    assert outside.got == made
    assert await relay_outbox(rig) == RelaySummary()


async def test_what_failed_comes_again_later(rig: Rig) -> None:
    """§16.72, §16.74, §17.7: at its next due time, not at the next sweep."""
    outside = outlet(rig)
    (event,) = await events(rig)
    outside.failing["economy.credits.topped_up"] = [DOWN]
    failed = FailedMessage(event, "PROVIDER.FAILURE", retryable=True)
    assert await relay_outbox(rig) == RelaySummary(failed=(failed,))
    assert await relay_outbox(rig) == RelaySummary()
    rig.later(30)
    assert (await relay_outbox(rig)).relayed == (event,)


async def test_poison_does_not_stop_what_is_behind_it(rig: Rig) -> None:
    """§16.73."""
    outside = outlet(rig)
    await rig.grant("fan", "1.00")
    await rig.top_up("fan", "1.00")
    outside.failing["economy.promo.granted"] = [DOWN]
    summary = await relay_outbox(rig)
    assert (len(summary.relayed), len(summary.failed)) == (1, 1)


async def test_so_many_are_relayed(rig: Rig) -> None:
    """§16.75."""
    outlet(rig)
    made = await events(rig, 3)
    run = await rig.sweep("relay", limit=2)
    assert run["relay"].summary == RelaySummary(relayed=tuple(made[:2]))
    assert run["relay"].more


@pytest.mark.parametrize("attempts", [1, 3])
async def test_the_last_attempt_ends_it(rig: Rig, attempts: int) -> None:
    """§16.76, §16.78."""
    outside = outlet(rig, attempts)
    (event,) = await events(rig)
    outside.failing["economy.credits.topped_up"] = [DOWN] * 10
    for _ in range(attempts - 1):
        assert (await relay_outbox(rig)).failed
        rig.later(31)
    summary = await relay_outbox(rig)
    assert summary == RelaySummary(dead_lettered=(Reasoned(event, "PROVIDER.FAILURE"),))
    rig.later(100_000)
    assert await relay_outbox(rig) == RelaySummary()
    assert (await rig.app.messages.get(event)).state is MessageState.DEAD


async def test_the_backlog_is_told(rig: Rig) -> None:
    """§16.77: no age when nothing waits."""
    outlet(rig)
    metrics = rig.app.metrics
    await events(rig)
    rig.later(40)
    await relay_outbox(rig)
    backlog = metrics.get("offpath_economy_relay_backlog")
    age = metrics.get("offpath_economy_relay_age_seconds")
    assert backlog is not None
    assert age is not None
    assert (backlog.value, age.value, age.max) == (1, 1, 40)
    await relay_outbox(rig)
    backlog = metrics.get("offpath_economy_relay_backlog")
    age = metrics.get("offpath_economy_relay_age_seconds")
    assert backlog is not None
    assert age is not None
    assert (backlog.value, age.value) == (0, 1)


async def test_a_claim_that_raises_is_a_failure_of_the_store(rig: Rig) -> None:
    """§16.5."""
    outlet(rig)
    rig.store.fail("lease_messages", error=RuntimeError("raw"))
    result = (await rig.sweep("relay"))["relay"]
    assert (result.ok, result.code, result.retryable) == (False, "STORE.FAILURE", True)


async def test_a_backlog_that_cannot_be_counted_stops_nothing(rig: Rig) -> None:
    outlet(rig)
    made = await events(rig)
    rig.store.fail("message_backlog")
    assert (await relay_outbox(rig)).relayed == tuple(made)


# -- the inbox -------------------------------------------------------------------------------------


def top_up(event: str, amount: str = "10.00", user: str = "fan") -> TopUp:
    return TopUp(
        key=event_key(event),
        actor=Actor.system("webhook:stripe"),
        user=user,
        amount=credits(amount),
        source="card",
    )


def purchase(event: str) -> Spend:
    return Spend(
        key=event_key(event),
        actor=SYSTEM,
        buyer="fan",
        order_id=event,
        sku="hat",
        price=credits(5),
        recipients=(Share("seller", 10_000),),
    )


async def test_what_came_in_is_applied_in_order_under_its_keys(rig: Rig) -> None:
    """§16.79."""
    ids = [
        (await rig.accept("e1", top_up("e1"))).id,
        (await rig.accept("e2", purchase("e2"))).id,
    ]
    assert await rig.balance("fan:spendable") == "0.00"  # nothing is posted where it arrives
    run = await rig.sweep("drain_inbox")
    assert run["drain_inbox"].summary == InboxSummary(applied=tuple(ids))
    assert await rig.balance("fan:spendable") == "5.00"
    assert len(run.postings) == 3
    assert await drain_inbox(rig) == InboxSummary()
    assert await rig.store.ledger_key("whk:e1") is not None


async def test_what_was_done_before_is_applied(rig: Rig) -> None:
    """§16.80."""
    await rig.done(top_up("e1"))
    made = await rig.accept("e1", top_up("e1"))
    assert await drain_inbox(rig) == InboxSummary(applied=(made.id,))
    assert await rig.balance("fan:spendable") == "10.00"


async def test_a_rejected_one_is_dead_at_once(rig: Rig) -> None:
    """§16.81."""
    made = await rig.accept("e1", purchase("e1"))
    summary = await drain_inbox(rig)
    assert summary == InboxSummary(dead_lettered=(Reasoned(made.id, "INSUFFICIENT_FUNDS"),))
    await rig.top_up("fan", "100.00")
    rig.later(100_000)
    assert await drain_inbox(rig) == InboxSummary()
    message = await rig.app.messages.get(made.id)
    assert (message.state, message.reason) == (MessageState.DEAD, "rejected")


Submit = Callable[..., Awaitable[Any]]


def submitting(rig: Rig, error: Exception, times: int = 1) -> list[int]:
    """Have the next submissions raise; returns what counts them."""
    real, calls = rig.submit, [0]

    async def submit(request: Any, **given: Any) -> Any:
        calls[0] += 1
        if calls[0] <= times:
            raise error
        return await real(request, **given)

    rig.submit = submit  # type: ignore[method-assign]
    return calls


async def test_a_fault_that_cannot_go_away_ends_it_at_once(rig: Rig) -> None:
    """§16.82."""
    submitting(rig, ChainBroken("altered"))
    made = await rig.accept("e1", top_up("e1"))
    summary = await drain_inbox(rig)
    assert summary == InboxSummary(dead_lettered=(Reasoned(made.id, "CHAIN.BROKEN"),))


@pytest.mark.parametrize(
    ("error", "code"), [(StoreFailed("cut"), "STORE.FAILURE"), (DOWN, "PROVIDER.FAILURE")]
)
async def test_a_fault_that_may_go_away_comes_again(rig: Rig, error: Exception, code: str) -> None:
    """§16.82."""
    submitting(rig, error)
    made = await rig.accept("e1", top_up("e1"))
    assert await drain_inbox(rig) == InboxSummary(
        failed=(FailedMessage(made.id, code, retryable=True),)
    )
    assert await drain_inbox(rig) == InboxSummary()
    rig.later(10)
    assert await drain_inbox(rig) == InboxSummary(applied=(made.id,))


async def test_the_last_attempt_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """§16.83."""
    monkeypatch.setenv("OFFPATH_MAX_INBOX_ATTEMPTS", "2")
    rig = Rig()
    calls = submitting(rig, StoreFailed("cut"), times=100)
    made = await rig.accept("e1", top_up("e1"))
    assert (await drain_inbox(rig)).failed
    rig.later(100)
    summary = await drain_inbox(rig)
    assert summary == InboxSummary(dead_lettered=(Reasoned(made.id, "STORE.FAILURE"),))
    rig.later(100_000)
    await drain_inbox(rig)
    assert calls == [2]
    await rig.app.close()


async def test_a_bad_one_does_not_stop_a_good_one(rig: Rig) -> None:
    """§16.84."""
    bad = await rig.app.accept("economy", "bad", {"kind": "nonsense"})
    good = await rig.accept("e1", top_up("e1"))
    summary = await drain_inbox(rig)
    assert summary == InboxSummary(
        applied=(good.id,), dead_lettered=(Reasoned(bad.id, "OP.MALFORMED"),)
    )


async def test_an_event_is_kept_once(rig: Rig) -> None:
    """§16.85, §16.87: a repeat is told, and gets the row that there is."""
    first = await rig.accept("e1", top_up("e1"))
    second = await rig.accept("e1", top_up("e1"))
    assert (first.new, second.new, second.id) == (True, False, first.id)
    await drain_inbox(rig)
    third = await rig.accept("e1", top_up("e1"))
    assert (third.new, third.id) == (False, first.id)
    assert await drain_inbox(rig) == InboxSummary()
    assert await rig.balance("fan:spendable") == "10.00"


async def test_dead_ones_are_redriven_but_never_applied_ones(rig: Rig) -> None:
    """§16.86. One that was rejected comes back only when it is asked for."""
    submitting(rig, ChainBroken("altered"), times=2)
    first = await rig.accept("e1", top_up("e1"))
    second = await rig.accept("e2", top_up("e2"))
    await drain_inbox(rig)
    rejected = await rig.accept("e3", purchase("e3"))
    await drain_inbox(rig)
    applied = await rig.accept("e4", top_up("e4"))
    await drain_inbox(rig)
    assert await rig.app.messages.redrive(limit=1, everything=True) == [first.id]
    assert await rig.app.messages.redrive(everything=True) == [second.id]
    assert (await rig.app.messages.get(first.id)).deliveries == 0
    assert set((await drain_inbox(rig)).applied) == {first.id, second.id}
    assert (await rig.app.messages.get(applied.id)).state is MessageState.DONE
    assert (await rig.app.messages.get(rejected.id)).state is MessageState.DEAD


async def test_an_answer_that_is_lost_applies_nothing_twice(rig: Rig) -> None:
    rig.store.lose_answer("post", error=StoreUnavailable("cut"))
    made = await rig.accept("e1", top_up("e1"))
    assert (await drain_inbox(rig)).failed
    rig.later(10)
    assert await drain_inbox(rig) == InboxSummary(applied=(made.id,))
    assert await rig.balance("fan:spendable") == "10.00"
