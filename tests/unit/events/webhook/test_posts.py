"""Posts are noted for whoever looks at an endpoint, and no delivery waits for the note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offpath.errors import StoreRejected, StoreUnavailable
from offpath.model.endpoint import stream_of
from offpath.model.message import MessageState
from offpath.model.post import MOST_POSTS, PostOutcome, PostRecord
from offpath.model.webhook import Answer, Delivered, Gone, Refused, RetryLater
from tests.unit.events.webhook.rig import Receivers, Rig


class SlowReceivers(Receivers):
    """Each answer takes a quarter of a second."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._clock = rig.clock

    async def post(self, post: Any) -> Answer:
        self._clock.advance(0.25)
        return await super().post(post)


async def _told(rig: Rig, name: str = "one") -> list[PostRecord]:
    return await rig.store.posts(name)


async def test_each_answer_is_noted_with_its_status_and_how_long_it_took() -> None:
    rig = Rig()
    rig.poster = receivers = SlowReceivers(rig)
    answers: dict[str, Answer] = {
        "taken": Delivered(202),
        "late": RetryLater(60.0, 429),
        "gone": Gone(410),
        "bad": Refused("status 500", 500),
        "mute": Refused("no answer within 20 s"),
    }
    for name, answer in answers.items():
        await rig.webhooks.add(name, f"http://{name}.example/")
        receivers.answer(name, answer)
    await rig.publish(topic="order.paid")
    await rig.run()
    found = {name: (await _told(rig, name))[0] for name in answers}
    assert {name: (one.outcome, one.status, one.why) for name, one in found.items()} == {
        "taken": (PostOutcome.DELIVERED, 202, None),
        "late": (PostOutcome.LATER, 429, "asked for 60 s"),
        "gone": (PostOutcome.GONE, 410, None),
        "bad": (PostOutcome.REFUSED, 500, "status 500"),
        "mute": (PostOutcome.REFUSED, None, "no answer within 20 s"),
    }
    one = found["taken"]
    (message,) = await rig.deliveries("taken")
    assert (one.message, one.topic, one.attempt) == (message.id, "order.paid", 1)
    assert one.seconds >= 0.25


async def test_a_loop_writes_once_a_second_and_soon_after_the_last_post() -> None:
    rig = Rig()
    await rig.webhooks.add("one", "http://one.example/")
    written: list[int] = []
    put_posts = rig.store.put_posts

    async def counted(posts: Sequence[PostRecord]) -> None:
        written.append(len(posts))
        await put_posts(posts)

    rig.store.put_posts = counted  # type: ignore[method-assign]
    for _ in range(2):
        await rig.publish(3)
        await rig.fan_out.run_once()
        await rig.posting.step()
    assert written == [3], "the others wait for the next second"
    again = (await rig.posting.step()).again
    assert again is not None
    assert again <= 1.0
    rig.clock.advance(1.0)
    await rig.posting.step()
    assert written == [3, 3]
    assert len(await _told(rig)) == 6


async def test_a_stop_writes_what_is_left() -> None:
    rig = Rig()
    await rig.webhooks.add("one", "http://one.example/")
    for _ in range(2):
        await rig.publish()
        await rig.fan_out.run_once()
        await rig.posting.step()
    await rig.posting.stop(1.0)
    assert len(await _told(rig)) == 2


async def test_what_cannot_be_written_holds_up_no_delivery_and_makes_no_pile() -> None:
    rig = Rig()
    await rig.webhooks.add("one", "http://one.example/")
    errors = iter([StoreUnavailable("away"), StoreRejected("never")])

    async def refused(posts: Sequence[PostRecord]) -> None:
        del posts
        raise next(errors)

    put_posts = rig.store.put_posts
    rig.store.put_posts = refused  # type: ignore[method-assign]
    for _ in range(2):
        await rig.publish()
        await rig.run()
    assert [one.state for one in await rig.deliveries("one")] == [MessageState.DONE] * 2
    assert [type(one) for one in rig.errors] == [StoreRejected], "that it is away is told elsewhere"
    rig.store.put_posts = put_posts  # type: ignore[method-assign]
    await rig.publish(2 * MOST_POSTS)
    await rig.run()
    assert len(await _told(rig)) == MOST_POSTS
    assert stream_of("one") == (await rig.deliveries("one"))[0].stream
