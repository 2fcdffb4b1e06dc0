"""Messages come to be: through every door, once for each id, with what they were written with."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.errors import InvalidArgument, StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import UniquePolicy
from offpath.model.message import Box, MessageFilter, MessageState
from offpath.model.settlement import Settlement, SettleStatus, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    enqueue,
    exists,
    new_job,
    outcomes,
    settle,
    start,
    unique,
)
from tests.conformance.log_builders import event, everything
from tests.conformance.message_builders import (
    ask_messages,
    end_message,
    find_all,
    hand,
    hand_one,
    ids,
    inbound,
    message,
    message_of,
    message_outcomes,
    post,
    put,
    retry,
)

TEXTS = {
    "quotes": 'it\'s "quoted" `so`',
    "statement": "x'; drop table message; --",
    "percent": "100%s %(name)s %% %",
    "backslash": "C:\\new\\table \\' \\u0041",
    "braces": "{}{0} ${x} :name ?1 $1 @p",
    "json": '{"a":["b"],"é":null}',
    "astral": "日本語 😀 é é",
    "newline": "a\nb\r\nc\td",
    "edge blanks": "  both  ",
    "empty": "",
}


async def test_a_message_is_kept_as_it_was_written(store: Store, clock: ManualClock) -> None:
    new = message("wallet", topic="paid", key="k", payload='{"n":1}', headers='{"h":"x"}', delay=10)
    (answer,) = await post(store, new)
    assert (answer.id, answer.job_id, answer.created) == (new.id, new.id, True)
    kept = await message_of(store, new.id)
    assert (kept.id, kept.box, kept.stream, kept.topic) == (new.id, Box.OUT, "wallet", "paid")
    assert (kept.key, kept.payload, kept.headers) == ("k", new.payload, new.headers)
    assert (kept.state, kept.attempt, kept.deliveries) == (MessageState.PENDING, 1, 0)
    assert (kept.created_at, kept.due_at) == (START, START + timedelta(seconds=10))
    assert not kept.held
    ends = (kept.finished_at, kept.expires_at, kept.reason, kept.failure)
    assert ends == (None, None, None, None)


async def test_what_is_handed_out_is_what_was_written(store: Store, clock: ManualClock) -> None:
    clock.advance(1)
    new = message("w", topic="t", key="k", payload='{"n":1}', headers='{"h":"x"}')
    await post(store, new)
    clock.advance(1)
    answer = await ask_messages(store, "w", holder="me")
    assert answer.now == clock.now()
    (held,) = answer.messages
    assert (held.id, held.box, held.stream, held.topic) == (new.id, Box.OUT, "w", "t")
    assert (held.payload, held.headers, held.key) == (new.payload, new.headers, "k")
    assert (held.holder, held.attempt, held.deliveries) == ("me", 1, 1)
    assert held.created_at == START + timedelta(seconds=1)
    assert held.position == (await message_of(store, new.id)).position


async def test_positions_grow_in_the_order_of_writing(store: Store) -> None:
    one = [message() for _ in range(3)][::-1]
    two = [message() for _ in range(3)][::-1]
    await post(store, *one)
    await post(store, *two)
    kept = await find_all(store)
    assert ids(kept) == [each.id for each in (*one, *two)]
    positions = [each.position for each in kept]
    assert positions == sorted(set(positions))
    assert positions[0] > 0


async def test_answers_are_of_the_jobs_and_then_of_the_messages(store: Store) -> None:
    jobs, messages = (new_job(), new_job()), (message(), inbound("k"), message())
    answers = await store.commit(Effects(jobs=jobs, messages=messages, log=(event(), event())))
    assert [answer.id for answer in answers] == [each.id for each in (*jobs, *messages)]
    assert all(answer.created for answer in answers)
    assert [answer.job_id for answer in answers] == [answer.id for answer in answers]


async def test_nothing_is_written_for_nothing(store: Store) -> None:
    assert await store.commit(Effects()) == []
    assert await find_all(store) == []


async def test_a_message_of_a_known_id_is_a_repeat_and_left_as_it_is(store: Store) -> None:
    first = message("a", payload="1")
    await post(store, first)
    before = await message_of(store, first.id)
    again = message("b", id=first.id, payload="2", key="x", delay=50)
    answers = await post(store, message(), again)
    assert [(answer.job_id, answer.created) for answer in answers][1] == (first.id, False)
    assert answers[0].created
    assert await message_of(store, first.id) == before


async def test_a_repeat_within_one_commit_is_written_once(store: Store) -> None:
    new = message()
    answers = await post(store, new, new, message(), new)
    assert [answer.created for answer in answers] == [True, False, True, False]
    assert len(await find_all(store)) == 2


@pytest.mark.parametrize("outcome", ["succeeded", "dead"])
async def test_a_message_that_has_ended_is_not_written_again(store: Store, outcome: str) -> None:
    new = message()
    await post(store, new)
    await end_message(store, await hand_one(store), message_outcomes()[outcome])
    before = await message_of(store, new.id)
    (answer,) = await post(store, new)
    assert not answer.created
    assert await message_of(store, new.id) == before
    assert await hand(store) == ()


async def test_a_repeat_of_a_held_message_leaves_it_held(store: Store) -> None:
    new = message()
    await post(store, new)
    held = await hand_one(store)
    (answer,) = await post(store, new)
    assert not answer.created
    assert await hand(store) == ()
    await end_message(store, held)


async def test_boxes_and_streams_of_one_name_are_apart(store: Store) -> None:
    out, other = await put(store, "x"), await put(store, "y")
    into = await put(store, "x", box=Box.IN, key="k")
    assert ids(await hand(store, "x", box=Box.IN)) == [into]
    assert ids(await hand(store, "x")) == [out]
    assert ids(await hand(store, "y")) == [other]


async def test_messages_jobs_and_events_of_one_id_are_apart(store: Store) -> None:
    job = new_job()
    new, logged = message(id=job.id), event(id=job.id)
    answers = await store.commit(Effects(jobs=(job,), messages=(new,), log=(logged,)))
    assert [answer.created for answer in answers] == [True, True]
    assert await exists(store, job.id)
    assert [each.id for each in await everything(store)] == [job.id]


@pytest.mark.needs("log")
async def test_a_refused_job_takes_the_messages_and_events_with_it(store: Store) -> None:
    await enqueue(store, new_job(unique=unique("k")))
    refused = new_job(unique=unique("k", policy=UniquePolicy.REFUSE))
    effects = Effects(jobs=(refused,), messages=(message(),), log=(event(),))
    with pytest.raises(Exception, match="k"):
        await store.commit(effects)
    assert await find_all(store) == []
    assert await everything(store) == []


@pytest.mark.parametrize("name", TEXTS)
async def test_every_text_comes_back_equal(store: Store, name: str) -> None:
    text = TEXTS[name]
    stream = text or "s"
    new = message(stream, topic=text, payload=text, key=text, headers=text, id=f"id {text}")
    await post(store, message("other", topic="other"), new)
    (held,) = await hand(store, stream)
    assert (held.id, held.stream, held.topic, held.key) == (new.id, stream, text, text)
    assert (held.payload, held.headers) == (text, text)
    for where in (
        MessageFilter(ids=(new.id,)),
        MessageFilter(streams=(stream,)),
        MessageFilter(topics=(text,)),
        MessageFilter(keys=(text,)),
    ):
        assert ids(await find_all(store, where)) == [new.id]
    await end_message(store, held, retry(type=text or "T", message=text))
    failed = (await message_of(store, new.id)).failure
    assert failed is not None
    assert (failed.type, failed.message) == (text or "T", text)


@pytest.mark.parametrize("size", [65_536, 1_048_576])
async def test_a_large_payload_comes_back_equal(store: Store, size: int) -> None:
    text = '"' + "é" * (size // 2) + '"'
    new = message(payload=text)
    await post(store, new)
    assert (await hand_one(store)).payload == text
    assert (await message_of(store, new.id)).payload == text


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["nul", "lone surrogate"])
@pytest.mark.parametrize("field", ["payload", "topic", "key", "headers", "id"])
async def test_an_unstorable_text_is_kept_equal_or_refused_whole(
    store: Store, field: str, text: str
) -> None:
    good, bad = message(), message(**{field: text})
    try:
        await post(store, good, bad)
    except (StoreRejected, InvalidArgument):
        assert await find_all(store) == []
        await post(store, good)
    else:
        assert getattr(await message_of(store, bad.id), field) == text
    assert (await message_of(store, good.id)).id == good.id


async def test_two_thousand_messages_in_one_commit_keep_their_order(store: Store) -> None:
    new = [message(key=str(n % 7)) for n in range(2_000)]
    answers = await post(store, *new)
    assert [answer.job_id for answer in answers] == [each.id for each in new]
    assert ids(await find_all(store)) == [each.id for each in new]


async def test_concurrent_commits_of_one_id_write_it_once(rivals: tuple[Store, ...]) -> None:
    for _ in range(5):
        new = message()
        answers = await asyncio.gather(*(post(rival, new, message()) for rival in rivals))
        assert sorted(answer[0].created for answer in answers) == [False, False, False, True]
        assert all(answer[1].created for answer in answers)


# -- with the settlement of a job ------------------------------------------------------------------

CARRYING = ("succeeded", "snoozed")
DROPPING = tuple(name for name in outcomes() if name not in CARRYING)


def _effects() -> Effects:
    return Effects(jobs=(new_job("child"),), messages=(message(), inbound("k")), log=(event(),))


@pytest.mark.parametrize("outcome", CARRYING)
async def test_what_ends_well_carries_its_messages_and_events(store: Store, outcome: str) -> None:
    job, effects = await start(store), _effects()
    settlement = Settlement(job=job, outcome=outcomes()[outcome], effects=effects)
    (answer,) = await store.settle([settlement])
    assert answer.status is SettleStatus.APPLIED
    new = [effects.jobs[0].id, *(each.id for each in effects.messages)]
    assert [each.id for each in answer.enqueued] == new
    assert all(each.created for each in answer.enqueued)
    assert ids(await find_all(store)) == new[1:]
    assert [each.id for each in await everything(store)] == [each.id for each in effects.log]
    (late,) = await store.settle([settlement])
    assert late.status is SettleStatus.LEASE_LOST
    assert len(await find_all(store)) == 2


@pytest.mark.parametrize("outcome", DROPPING)
async def test_what_does_not_drops_them(store: Store, outcome: str) -> None:
    job = await start(store)
    (answer,) = await store.settle(
        [Settlement(job=job, outcome=outcomes()[outcome], effects=_effects())]
    )
    assert (answer.status, answer.enqueued) == (SettleStatus.APPLIED, ())
    assert await find_all(store) == []
    assert await everything(store) == []


@pytest.mark.parametrize("outcome", [Succeeded(), Snoozed(delay=1)], ids=["succeeded", "snoozed"])
async def test_a_job_that_was_to_be_cancelled_drops_them(
    store: Store, outcome: Succeeded | Snoozed
) -> None:
    job = await start(store)
    await store.cancel([job.id])
    (answer,) = await store.settle([Settlement(job=job, outcome=outcome, effects=_effects())])
    assert (answer.status, answer.enqueued) == (SettleStatus.APPLIED, ())
    assert await find_all(store) == []
    assert await everything(store) == []


async def test_a_lost_lease_writes_no_message(store: Store) -> None:
    job = await start(store)
    await settle(store, job, Succeeded())
    (late,) = await store.settle([Settlement(job=job, outcome=Succeeded(), effects=_effects())])
    assert late.status is SettleStatus.LEASE_LOST
    assert await find_all(store) == []
    assert await everything(store) == []


async def test_a_refused_settlement_writes_no_message_and_holds_back_no_other(store: Store) -> None:
    await enqueue(store, new_job("held", unique=unique("k")))
    refused = new_job("new", unique=unique("k", policy=UniquePolicy.REFUSE))
    batch = [
        Settlement(
            job=await start(store),
            outcome=Succeeded(),
            effects=Effects(
                jobs=(refused,) if n == 1 else (),
                messages=(message(f"s{n}"),),
                log=(event(f"t{n}"),),
            ),
        )
        for n in range(3)
    ]
    answers = await store.settle(batch)
    applied, refusal = SettleStatus.APPLIED, SettleStatus.REFUSED
    assert [answer.status for answer in answers] == [applied, refusal, applied]
    assert [each.stream for each in await find_all(store)] == ["s0", "s2"]
    assert [each.type for each in await everything(store)] == ["t0", "t2"]


async def test_a_repeat_among_a_settlements_messages_is_answered_as_such(store: Store) -> None:
    known = inbound("k")
    await post(store, known)
    job, repeat, new = await start(store), inbound("k"), message()
    effects = Effects(messages=(repeat, new))
    (answer,) = await store.settle([Settlement(job=job, outcome=Succeeded(), effects=effects)])
    assert [(each.job_id, each.created) for each in answer.enqueued] == [
        (known.id, False),
        (new.id, True),
    ]
