"""Random calls about messages, made alike on memory and on a second store, are answered alike.

Memory is the oracle, and is itself held against the rule of a lease: what an ordered stream hands
out is worked out anew from what the records say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from offpath.model.effects import NOTHING, Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.job import DeadReason
from offpath.model.message import (
    Box,
    LeasedMessage,
    LeasedMessages,
    MessageFilter,
    MessagePage,
    MessageRecord,
    MessageRequest,
    MessageSettlement,
    MessageState,
    NewMessage,
    StreamRoom,
)
from offpath.model.settlement import Released, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import uid
from tests.conformance.message_builders import dead, finish, retry
from tests.conformance.model_place import Place, play

IDS = [uid(number * 37 % 101) for number in range(1, 101)]
STREAMS = ["a", "b", "c"]
_ORDERED = {"b", "c"}
_ALL = MessageFilter()
_MANY = 1_000

places = st.integers(0, 30)
some_places = st.lists(places, min_size=1, max_size=6)
delays = st.sampled_from([0.0, 0.0, 0.0, 10.0])
new_messages = st.fixed_dictionaries(
    {
        "box": st.sampled_from([Box.OUT, Box.OUT, Box.OUT, Box.IN]),
        "stream": st.sampled_from(STREAMS),
        "key": st.sampled_from([None, "k", "k", "l", "m"]),
        "delay": delays,
        "payload": st.sampled_from(["1", "2"]),
    },
    optional={"again": places, "topic": st.sampled_from(["t", "u"])},
)
"""``again`` is the place of a message whose id is used once more."""
batches = st.lists(new_messages, min_size=1, max_size=5)
outcomes = st.one_of(
    st.just(Succeeded()),
    st.builds(retry, st.sampled_from([0.0, 0.0, 10.0]), type=st.sampled_from(["E", "F"])),
    st.builds(
        dead, st.sampled_from([DeadReason.EXHAUSTED, DeadReason.REJECTED]), type=st.just("E")
    ),
    st.just(Released()),
)
keeps = st.sampled_from([None, 0.0, 10.0])
rooms = st.dictionaries(st.sampled_from(STREAMS), st.integers(0, 5), min_size=1)
filters = st.fixed_dictionaries(
    {},
    optional={
        "box": st.sampled_from(Box),
        "ids": some_places,
        "streams": st.lists(st.sampled_from(STREAMS), min_size=1, max_size=2).map(tuple),
        "topics": st.just(("t",)),
        "states": st.lists(st.sampled_from(MessageState), min_size=1, max_size=2).map(tuple),
        "keys": st.lists(st.sampled_from("klm"), min_size=1, max_size=2).map(tuple),
        "reasons": st.just(("exhausted",)),
        "not_reasons": st.just(("rejected",)),
    },
)


class Machine(RuleBasedStateMachine):
    """Two stores that are told the same."""

    def __init__(self, runner: asyncio.Runner, clock: ManualClock, place: Place) -> None:
        super().__init__()
        self._runner = runner
        self._clock = clock
        self._oracle = MemoryStore(clock)
        self._place = place
        self._other = runner.run(place.empty_store())
        self._held: list[LeasedMessage] = []
        self._theirs: dict[tuple[str, str], LeasedMessage] = {}
        self._made: list[str] = []
        self._holders = 0

    def _both(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """Make one call on both stores; the oracle's answer."""
        right, answer = self._each(call)
        assert _alike(answer) == _alike(right)
        return right

    def _each(self, call: Callable[[Store], Awaitable[Any]]) -> tuple[Any, Any]:
        async def run(store: Store) -> Any:
            return await call(store)

        return self._runner.run(run(self._oracle)), self._runner.run(run(self._other))

    def _records(self) -> list[MessageRecord]:
        page = self._runner.run(self._oracle.find_messages(_ALL, limit=_MANY, newest=False))
        return list(page.items)

    def _id(self, place: int) -> str:
        """The id of a message that was written once, or one that never was."""
        return self._made[-1 - place] if place < len(self._made) else IDS[-1]

    def _ids(self, chosen: Iterable[int]) -> list[str]:
        return [self._id(place) for place in chosen]

    def _message(self, drawn: dict[str, Any]) -> NewMessage:
        fields = dict(drawn)
        again = fields.pop("again", None)
        if fields["box"] is Box.IN and fields["key"] is None:
            fields["key"] = "k"
        fields["id"] = IDS[len(self._made) % len(IDS)] if again is None else self._id(again)
        self._made.append(fields["id"])
        return NewMessage(**fields)

    def _messages(self, drawn: Iterable[dict[str, Any]]) -> tuple[NewMessage, ...]:
        return tuple(map(self._message, drawn))

    # -- rules ---------------------------------------------------------------------------------

    @initialize(drawn=batches)
    def start(self, drawn: list[dict[str, Any]]) -> None:
        self.write(drawn)

    @rule(drawn=batches)
    def write(self, drawn: list[dict[str, Any]]) -> None:
        effects = Effects(messages=self._messages(drawn))
        self._both(lambda store: store.commit(effects))

    @rule(
        box=st.sampled_from([Box.OUT, Box.OUT, Box.IN]),
        wanted=rooms,
        limit=st.integers(1, 6),
        seconds=st.sampled_from([5.0, 10.0, 60.0]),
    )
    def lease(self, box: Box, wanted: dict[str, int], limit: int, seconds: float) -> None:
        """With room for all of what is asked for, so that no choice between streams is left."""
        streams = tuple(
            StreamRoom(stream=name, limit=room, ordered=name in _ORDERED)
            for name, room in wanted.items()
        )
        limit = max(limit, sum(wanted.values()))
        self._lease(box, streams, limit, seconds)

    @rule(stream=st.sampled_from(STREAMS), limit=st.integers(1, 4), ordered=st.booleans())
    def lease_some(self, stream: str, limit: int, ordered: bool) -> None:
        """Now and then somebody does not ask for the order."""
        room = StreamRoom(stream=stream, limit=9, ordered=ordered)
        self._lease(Box.OUT, (room,), limit, 10.0)

    def _lease(self, box: Box, streams: tuple[StreamRoom, ...], limit: int, seconds: float) -> None:
        self._holders += 1
        request = MessageRequest(
            box=box,
            holder=f"h{self._holders}",
            streams=streams,
            limit=limit,
            lease_seconds=seconds,
        )
        before = self._records()
        right, answer = self._each(lambda store: store.lease_messages(request))
        assert _alike(answer) == _alike(right)
        _check_lease(request, before, right)
        self._held += right.messages
        self._theirs |= {(each.id, each.holder): each for each in answer.messages}

    @precondition(lambda self: self._held)
    @rule(
        ends=st.lists(st.tuples(st.integers(0, 9), outcomes, keeps), min_size=1, max_size=5),
        drawn=st.lists(new_messages, max_size=2),
    )
    def settle(
        self, ends: list[tuple[int, Any, float | None]], drawn: list[dict[str, Any]]
    ) -> None:
        """The first of the batch brings effects: so they depend on no order in it."""
        batch = [
            finish(self._held[-1 - at % len(self._held)], outcome, keep=keep)
            for at, outcome, keep in ends
        ]
        effects = Effects(messages=self._messages(drawn)) if drawn else NOTHING
        self._settle([replace(batch[0], effects=effects), *batch[1:]])

    @precondition(lambda self: self._held)
    @rule(outcome=outcomes, keep=keeps)
    def settle_all(self, outcome: Any, keep: float | None) -> None:
        lately = list({each.id: each for each in self._held}.values())[-8:]
        self._settle([finish(each, outcome, keep=keep) for each in lately])

    def _settle(self, batch: list[MessageSettlement]) -> None:
        theirs = [
            replace(each, message=self._theirs[each.message.id, each.message.holder])
            for each in batch
        ]
        right = self._runner.run(self._oracle.settle_messages(batch))
        answer = self._runner.run(self._other.settle_messages(theirs))
        assert answer == right
        assert {each.status for each in right} <= {SettleStatus.APPLIED, SettleStatus.LEASE_LOST}

    @rule(chosen=some_places)
    def revive(self, chosen: list[int]) -> None:
        wanted = self._ids(chosen)
        self._both(partial(_sorted, name="revive_messages", ids=wanted))

    @rule(chosen=some_places)
    def delete(self, chosen: list[int]) -> None:
        self._delete(self._ids(chosen))

    def _delete(self, ids: list[str]) -> None:
        self._both(partial(_sorted, name="delete_messages", ids=ids))

    @rule()
    def prune(self) -> None:
        self._both(lambda store: store.prune(limit=_MANY))

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self._clock.advance(seconds)

    @rule(fields=filters, limit=st.integers(1, 5), after=st.integers(0, 3), newest=st.booleans())
    def find(self, fields: dict[str, Any], limit: int, after: int, newest: bool) -> None:
        """Page by page: the mark of a page is the store's own."""
        fields["ids"] = tuple(self._ids(fields.get("ids", ())))
        where = MessageFilter(**fields)
        marks: tuple[str | None, str | None] = (None, None)
        for _ in range(after + 1):
            right, answer = (
                self._runner.run(store.find_messages(where, limit=limit, after=mark, newest=newest))
                for store, mark in zip((self._oracle, self._other), marks, strict=True)
            )
            assert _alike(answer) == _alike(right)
            marks = (right.next, answer.next)
            if right.next is None:
                break

    # -- endpoints -----------------------------------------------------------------------------

    @rule(name=st.sampled_from("xy"), url=st.sampled_from(["https://1/", "https://2/"]))
    def put_endpoint(self, name: str, url: str) -> None:
        endpoint = Endpoint(name=name, url=url, secrets=(url,))
        self._both(lambda store: store.put_endpoint(endpoint))

    @rule(name=st.sampled_from("xy"), state=st.sampled_from(EndpointState))
    def set_endpoint(self, name: str, state: EndpointState) -> None:
        reason = None if state is EndpointState.ENABLED else "why"
        self._both(lambda store: store.set_endpoint(name, state, reason))

    @rule(
        name=st.sampled_from("xy"),
        block=st.sampled_from([None, 5.0, 60.0]),
        disable=st.sampled_from([None, None, "gone"]),
    )
    def note_a_failure(self, name: str, block: float | None, disable: str | None) -> None:
        note = EndpointNote(name=name, delivered=False, block=block, disable=disable)
        self._both(lambda store: store.note_endpoint(note))

    @rule(name=st.sampled_from("xy"))
    def note_a_success(self, name: str) -> None:
        self._both(lambda store: store.note_endpoint(EndpointNote(name=name, delivered=True)))

    @rule(name=st.sampled_from("xy"))
    def delete_endpoint(self, name: str) -> None:
        self._both(lambda store: store.delete_endpoint(name))

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def the_same_is_kept(self) -> None:
        self._both(lambda store: store.find_messages(_ALL, limit=_MANY, newest=False))
        self._both(lambda store: store.message_backlog(limit=4))
        self._both(lambda store: store.endpoints())

    def teardown(self) -> None:
        """Whatever happened, everything can be ended and removed."""
        self._clock.advance(600)
        for box in Box:
            room = tuple(StreamRoom(stream=name, limit=_MANY) for name in STREAMS)
            self._lease(box, room, _MANY, 60.0)
        lately = {each.id: each for each in self._held}
        self._settle([finish(each) for each in lately.values()])
        self._delete(IDS)
        for name in "xy":
            self.delete_endpoint(name)
        assert self._records() == []
        self.the_same_is_kept()
        self._place.clean = True


def _check_lease(
    request: MessageRequest, before: list[MessageRecord], answer: LeasedMessages
) -> None:
    """The messages of a lease by its definition, for each stream, worked out from all messages."""
    for room in request.streams:
        pending = [
            each
            for each in before
            if (each.box, each.stream, each.state)
            == (request.box, room.stream, MessageState.PENDING)
        ]
        got = [each for each in answer.messages if each.stream == room.stream]
        assert len(got) <= room.limit
        due = {each.id for each in pending if each.due_at <= answer.now}
        free = due if not room.ordered else _in_turn(pending, due)
        assert {each.id for each in got} <= free
        if len(answer.messages) < request.limit:
            assert len(got) == min(room.limit, len(free))
        if room.ordered:
            _check_order(pending, got)
        else:
            wanted = sorted(
                (each for each in pending if each.id in due),
                key=lambda each: (each.due_at, each.position),
            )
            assert [each.id for each in got] == [each.id for each in wanted[: len(got)]]


def _in_turn(pending: list[MessageRecord], due: set[str]) -> set[str]:
    """Messages of which every earlier one of the key is due too."""
    stopped: set[str] = set()
    found = set()
    for each in pending:
        if each.id not in due:
            stopped |= {each.key} if each.key is not None else set()
        elif each.key is None or each.key not in stopped:
            found.add(each.id)
    return found


def _check_order(pending: list[MessageRecord], got: list[LeasedMessage]) -> None:
    seen: set[str] = set()
    for held in got:
        if held.key is not None:
            ahead = {
                each.id
                for each in pending
                if each.key == held.key and each.position < held.position
            }
            assert ahead <= seen
        seen.add(held.id)


async def _sorted(store: Store, *, name: str, ids: list[str]) -> list[str]:
    return sorted(await getattr(store, name)(ids))


def _alike(answer: Any) -> Any:
    """An answer without what the contract leaves open: positions, and the order across streams."""
    match answer:
        case LeasedMessages():
            by_stream = sorted(answer.messages, key=lambda each: each.stream)
            return [replace(each, position=0) for each in by_stream], answer.now, answer.due_in
        case MessagePage():
            return [replace(each, position=0) for each in answer.items], answer.next is None
        case _:
            return answer


@pytest.mark.needs("workflows")  # the random calls ask for every part of the contract
@pytest.mark.timeout(600)
def test_both_stores_move_messages_alike(backend: Backend, clock: ManualClock) -> None:
    play(Machine, backend, clock)
