"""An event reaches every endpoint that wants it, each in its own time and trouble."""

from __future__ import annotations

import asyncio
import json

import pytest

from offpath.errors import EndpointNotFound, InvalidArgument, StoreUnavailable
from offpath.events.webhook.guard import Forbidden
from offpath.events.webhook.poster import Post
from offpath.model.effects import Effects
from offpath.model.endpoint import EndpointNote, EndpointState
from offpath.model.job import DeadReason
from offpath.model.message import LeasedMessages, MessageRequest, MessageState
from offpath.model.new import Box, NewMessage
from offpath.model.webhook import (
    LONGEST_WAIT,
    OPEN_AFTER,
    SCHEDULE,
    Answer,
    Delivered,
    Gone,
    Refused,
    RetryLater,
    judged,
    waiting,
)
from offpath.runtime.ids import new_id
from tests.unit.events.recipient import ticks
from tests.unit.events.webhook.rig import START, Rig

DAY = 86_400.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def _add(rig: Rig, name: str, **options: object) -> None:
    await rig.webhooks.add(name, f"https://{name}.example.com/hooks", **options)  # type: ignore[arg-type]


async def test_each_endpoint_gets_the_event_once_with_an_id_of_its_own(rig: Rig) -> None:
    await _add(rig, "one")
    await _add(rig, "two")
    await rig.publish()
    await rig.run()
    await rig.run()
    assert sorted(post.endpoint.name for post in rig.receivers.posts) == ["one", "two"]
    assert len({post.id for post in rig.receivers.posts}) == 2
    body = json.loads(rig.receivers.bodies("one")[0])
    assert body["type"] == "order.paid"
    assert body["data"] == {"n": 0}
    assert body["timestamp"].startswith("2026-01-01T")


async def test_only_the_topics_and_streams_it_wants_reach_an_endpoint(rig: Rig) -> None:
    await _add(rig, "paid", topics=["order.paid"])
    await _add(rig, "orders", topics=["order.*"])
    await _add(rig, "elsewhere", streams=["wallet"])
    await rig.publish(topic="order.paid")
    await rig.publish(topic="order.sent")
    await rig.publish(topic="user.new")
    await rig.run()
    counts = [len(rig.receivers.bodies(name)) for name in ("paid", "orders", "elsewhere")]
    assert counts == [1, 2, 0]


async def test_the_id_and_the_bytes_stay_the_same_over_retries(rig: Rig) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Refused("status 500"))
    await rig.publish()
    await rig.run()
    rig.clock.advance(6.0)
    rig.receivers.answer("one", Delivered())
    await rig.run()
    first, second = rig.receivers.posts
    assert (first.id, first.body) == (second.id, second.body)
    (delivery,) = await rig.deliveries("one")
    assert delivery.state is MessageState.DONE


async def test_a_delivery_is_tried_by_the_schedule_and_then_given_up(rig: Rig) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Refused("status 500"))
    await rig.publish()
    for wait in SCHEDULE:
        rig.clock.advance(wait)
        await rig.run()
    assert len(rig.receivers.posts) == len(SCHEDULE)
    (delivery,) = await rig.deliveries("one")
    assert delivery.state is MessageState.DEAD
    assert delivery.reason == DeadReason.EXHAUSTED
    assert delivery.failure is not None
    assert delivery.failure.message == "status 500"


async def test_a_failing_endpoint_does_not_hold_the_others_back(rig: Rig) -> None:
    for name in ("bad", "good"):
        await _add(rig, name)
    rig.receivers.answer("bad", Refused("status 500"))
    await rig.publish(50)
    await rig.run()
    assert len(rig.receivers.bodies("good")) == 50
    assert len(rig.receivers.bodies("bad")) < 12  # the circuit opened


async def test_gone_disables_the_endpoint_and_keeps_what_is_for_it(rig: Rig) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Gone())
    await rig.publish()
    await rig.run()
    receiver = await rig.webhooks.get("one")
    assert receiver.state is EndpointState.DISABLED
    assert receiver.reason == "it answered 410 Gone"
    rig.clock.advance(DAY)
    await rig.run()
    assert len(rig.receivers.posts) == 1
    rig.receivers.answer("one", Delivered())
    await rig.webhooks.resume("one")
    await rig.run()
    assert len(rig.receivers.posts) == 2


async def test_a_wait_that_was_asked_for_holds_for_the_whole_endpoint_and_costs_no_attempt(
    rig: Rig,
) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", RetryLater(120.0))
    await rig.publish(3)
    await rig.run()
    asked = len(rig.receivers.posts)
    rig.clock.advance(60.0)
    await rig.run()
    assert len(rig.receivers.posts) == asked
    rig.receivers.answer("one", Delivered())
    rig.clock.advance(61.0)
    await rig.run()
    deliveries = await rig.deliveries("one")
    assert [one.state for one in deliveries] == [MessageState.DONE] * 3
    assert [one.attempt for one in deliveries] == [1] * 3


async def test_a_broken_receiver_for_thirty_days_is_bounded_and_replayed_in_order(
    rig: Rig,
) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Refused("status 500"))
    for _ in range(30):
        await rig.publish(2)
        for _ in range(24):
            await rig.run()
            rig.clock.advance(3_601.0)
    tried = len(rig.receivers.posts)
    assert tried < 5 * 24 + 20
    receiver = await rig.webhooks.get("one")
    assert receiver.state is EndpointState.DISABLED
    assert receiver.reason is not None
    assert receiver.reason.startswith("every post has failed since 2026-01-01")
    assert receiver.failing_since == START
    rig.receivers.answer("one", Delivered())
    rig.receivers.posts.clear()
    await rig.webhooks.resume("one")
    await rig.webhooks.replay("one", since=START)
    for _ in range(3):
        rig.clock.advance(4 * DAY)
        await rig.run()
    numbers = [json.loads(body)["data"]["n"] for body in rig.receivers.bodies("one")]
    assert sorted(numbers) == list(range(60))
    assert rig.receivers.posts
    deliveries = await rig.deliveries("one")
    assert {one.state for one in deliveries} == {MessageState.DONE}


async def test_a_replay_posts_what_was_delivered_in_its_order_under_the_same_ids(rig: Rig) -> None:
    await _add(rig, "one")
    await rig.publish(7)
    await rig.run()
    before = [post.id for post in rig.receivers.posts]
    rig.receivers.posts.clear()
    assert await rig.webhooks.replay("one", since=START) == 7
    await rig.run()
    assert [post.id for post in rig.receivers.posts] == before


async def test_a_paused_endpoint_gets_what_waited_once_it_is_resumed(rig: Rig) -> None:
    await _add(rig, "one")
    await rig.webhooks.pause("one", "maintenance")
    await rig.publish(3)
    await rig.run()
    assert rig.receivers.posts == []
    await rig.webhooks.resume("one")
    await rig.run()
    assert len(rig.receivers.posts) == 3


async def test_the_loop_of_posts_is_clean_while_a_receiver_fails(rig: Rig) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Refused("status 500"))
    await rig.publish(2)
    await rig.fan_out.run_once()
    turn = await rig.posting.step()
    assert turn.verdict in {"clean", "empty"}
    assert turn.counts.get("failed") == 2
    await rig.posting.stop()


# -- endpoints for those who run the service -------------------------------------------------------


async def test_a_secret_is_shown_when_it_is_made_and_nowhere_else(rig: Rig) -> None:
    added = await rig.webhooks.add("one", "https://one.example.com/", headers={"X-Key": "hidden"})
    assert added.secret.startswith("whsec_")
    shown = repr(added) + repr(await rig.webhooks.list()) + repr(await rig.store.endpoints())
    assert added.secret not in shown
    assert "hidden" not in shown


async def test_rotation_signs_with_both_until_the_old_one_is_retired(rig: Rig) -> None:
    first = await rig.webhooks.add("one", "https://one.example.com/")
    second = await rig.webhooks.rotate("one")
    assert second.secret != first.secret
    (endpoint,) = await rig.store.endpoints()
    assert endpoint.secrets == (second.secret, first.secret)
    assert await rig.webhooks.retire("one") == 1
    (endpoint,) = await rig.store.endpoints()
    assert endpoint.secrets == (second.secret,)


async def test_adding_again_changes_the_url_and_keeps_secret_and_state(rig: Rig) -> None:
    first = await rig.webhooks.add("one", "https://one.example.com/")
    await rig.webhooks.pause("one")
    again = await rig.webhooks.add("one", "https://other.example.com/")
    assert not again.new
    assert again.secret == first.secret
    assert (await rig.webhooks.get("one")).state is EndpointState.PAUSED


async def test_bad_endpoints_are_refused_before_anything_is_written(rig: Rig) -> None:
    with pytest.raises(Forbidden):
        await rig.webhooks.add("one", "https://169.254.169.254/")
    with pytest.raises(InvalidArgument):
        await rig.webhooks.add("one", "https://a.example.com/", secret="short")
    with pytest.raises(InvalidArgument):
        await rig.webhooks.add("one", "https://a.example.com/", topics=["a*b"])
    with pytest.raises(InvalidArgument):
        await rig.webhooks.add("one", "https://a.example.com/", headers={"A": "x\r\nB: y"})
    with pytest.raises(InvalidArgument):
        await rig.webhooks.add("one", "https://a.example.com/", headers={"Webhook-Id": "1"})
    for name in ("Content-Encoding", "transfer-encoding", "Expect", "Host", "Content-Type"):
        with pytest.raises(InvalidArgument, match="offpath sets that itself"):
            await rig.webhooks.add("one", "https://a.example.com/", headers={name: "gzip"})
    for call in (rig.webhooks.pause, rig.webhooks.resume, rig.webhooks.rotate, rig.webhooks.remove):
        with pytest.raises(EndpointNotFound):
            await call("one")
    assert await rig.webhooks.list() == []


async def test_a_receiver_that_always_says_at_once_is_not_asked_without_a_pause(rig: Rig) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", RetryLater(0.0))
    await rig.publish()
    await rig.run()
    await rig.run()
    assert len(rig.receivers.posts) == 1
    for _ in range(10):
        rig.clock.advance(1.0)
        await rig.run()
    assert len(rig.receivers.posts) == OPEN_AFTER, "then its circuit is open"
    (delivery,) = await rig.deliveries("one")
    assert delivery.attempt == 1


async def test_what_was_delivered_stays_so_when_its_endpoint_cannot_be_noted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _add(rig, "one")
    rig.receivers.answer("one", Refused("status 500"))
    await rig.publish()
    await rig.run()

    async def away(note: EndpointNote) -> None:
        raise StoreUnavailable(f"cannot note {note.name}")

    monkeypatch.setattr(rig.store, "note_endpoint", away)
    rig.receivers.answer("one", Delivered())
    rig.clock.advance(6.0)
    await rig.run()
    assert len(rig.receivers.posts) == 2
    (delivery,) = await rig.deliveries("one")
    assert delivery.state is MessageState.DONE


async def test_an_endpoint_added_right_before_an_event_gets_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.publish(topic="earlier")
    await rig.run()
    lease = rig.store.lease_messages

    async def busy(request: MessageRequest) -> LeasedMessages:
        """Just before the lease, somebody adds an endpoint and publishes."""
        monkeypatch.undo()
        await _add(rig, "one")
        await rig.publish()
        return await lease(request)

    monkeypatch.setattr(rig.store, "lease_messages", busy)
    await rig.fan_out.run_once()
    assert len(await rig.deliveries("one")) == 1


async def test_a_stream_named_later_is_fanned_out_as_well(rig: Rig) -> None:
    await _add(rig, "one")
    await rig.run()
    rig.webhooks.deliver("late")
    message = NewMessage(id=new_id(), box=Box.OUT, stream="late", topic="t", payload="{}")
    await rig.store.commit(Effects(messages=(message,)))
    await rig.run()
    assert len(rig.receivers.posts) == 1


def test_a_retry_after_beyond_any_calendar_is_none() -> None:
    assert waiting(f"Mon, 01 Jan {10**30} 00:00:00 GMT", START) is None


@pytest.mark.parametrize(
    "date",
    [
        "Thu, 01 Jan 2026 00:00:37 GMT",
        "Thursday, 01-Jan-26 00:00:37 GMT",
        "Thu Jan  1 00:00:37 2026",
        "37",
        "0000000000000000000000037",
    ],
)
def test_a_retry_after_is_understood_in_each_form(date: str) -> None:
    assert waiting(date, START) == 37.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1000000000", LONGEST_WAIT),
        ("1" + "0" * 21, LONGEST_WAIT),
        ("9" * 5_000, LONGEST_WAIT),
        ("Fri, 01 Jan 2076 00:00:00 GMT", LONGEST_WAIT),
        ("Wednesday, 01-Jan-76 00:00:00 GMT", LONGEST_WAIT),
        ("Saturday, 01-Jan-77 00:00:00 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("Sun Nov  6 08:49:37 1994", 0.0),
        ("00", 0.0),
    ],
)
def test_a_retry_after_is_bounded(text: str, seconds: float) -> None:
    """A year of two digits is the latest that is not over 50 years ahead (RFC 9110, 5.6.7)."""
    assert waiting(text, START) == seconds


UNKNOWN = [
    "-5",
    "+5",
    "1.5",
    "1e3",
    "1_0",
    "nan",
    "inf",
    "",
    "soon",
    "5, 7",
    "\N{ARABIC-INDIC DIGIT THREE}\N{ARABIC-INDIC DIGIT ZERO}",
    "\N{SUPERSCRIPT TWO}",
    "Sun, 99 Nov 1994 08:49:37 GMT",
    "Saturday, 29-Feb-25 00:00:00 GMT",
    "Thu Jan  1 25:00:37 2026",
]


@pytest.mark.parametrize("text", UNKNOWN, ids=ascii)
def test_a_retry_after_that_is_no_time_is_none(text: str) -> None:
    assert waiting(text, START) is None


async def test_whatever_a_receiver_asks_it_is_posted_to_again_within_the_cap(rig: Rig) -> None:
    asked = ["1" + "0" * 21, "Fri, 01 Jan 2076 00:00:00 GMT", "Mon Jan  1 00:00:00 2076", *UNKNOWN]
    for number, text in enumerate(asked):
        await _add(rig, f"e{number}")
        rig.receivers.answer(f"e{number}", judged(429, text, START))
    await rig.publish()
    await rig.run()
    assert len(rig.receivers.posts) == len(asked)
    await rig.run()
    assert len(rig.receivers.posts) == len(asked), "nothing is posted without a pause"
    rig.clock.advance(LONGEST_WAIT)
    for number in range(len(asked)):
        rig.receivers.answer(f"e{number}", Delivered())
    await rig.run()
    states = {(await rig.deliveries(f"e{number}"))[0].state for number in range(len(asked))}
    assert states == {MessageState.DONE}


@pytest.mark.parametrize("others", [0, 1])
async def test_a_backlog_of_one_endpoint_goes_out_without_a_rest(rig: Rig, others: int) -> None:
    await _add(rig, "one")
    await rig.publish(20)
    await rig.fan_out.run_once()
    for number in range(others):
        await _add(rig, f"idle{number}")
    rig.poster = receiver = Unhurried()
    for _ in range(40):
        if (await asyncio.wait_for(rig.posting.step(), 5.0)).again is not True:
            break
    assert receiver.begun == 20, "a rest with more to post would make it five for each poll"


class Unhurried:
    """A receiver that answers after some turns of the event loop."""

    begun = 0

    async def post(self, post: Post) -> Answer:
        assert post.body
        self.begun += 1
        await ticks(20)
        return Delivered()

    async def close(self) -> None:
        """Nothing is open."""
