"""Positions of a user's own table, and what a function that reads one may return."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offpath
from offpath.errors import InvalidArgument
from offpath.events import LogEvent, Router, SourceEvent
from offpath.events.position import decode, encode, follows
from offpath.events.source import PositionTied, PositionUnordered
from offpath.runtime.clock import ManualClock
from tests.conformance.builders import START

one = st.one_of(
    st.integers(),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
    st.dates(),
    st.uuids(),
)


@given(st.one_of(one, st.tuples(one), st.tuples(one, one)))
def test_a_position_comes_back_as_it_was(position: object) -> None:
    again = decode(encode(position))
    assert again == position
    assert type(again) is type(position)
    assert follows(again, position) is False


@pytest.mark.parametrize("bad", [None, True, float("nan"), Decimal("Infinity"), (), (1, None), [1]])
def test_what_has_no_order_is_no_position(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="position"):
        encode(bad)


@pytest.mark.parametrize("text", ["", "7", "[]", '["int"]', '["int", "x"]', '["map", "1"]', "{}"])
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        decode(text)


@pytest.mark.parametrize(
    ("later", "earlier", "above"),
    [
        (2, 1, True),
        ((START, 1), (START, 2), False),
        ((START + timedelta(microseconds=1), 1), (START, 2), True),
        (date(2025, 1, 2), date(2025, 1, 1), True),
        (UUID(int=2), UUID(int=1), True),
        ("b", "a", None),
        (("b", 1), ("a", 1), None),
        (datetime(2025, 1, 1), START, None),  # noqa: DTZ001 - a column without a zone
        (1, "a", None),
    ],
)
def test_order_is_judged_where_it_is_known(later: object, earlier: object, above: object) -> None:
    assert follows(later, earlier) is above


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def app(clock: ManualClock) -> AsyncIterator[offpath.App]:
    made = offpath.App("memory://", clock=clock, auto_start=False)
    async with made:
        await made.routers.open_gate()
        yield made


def event(position: object, name: str) -> SourceEvent:
    return SourceEvent(position=position, id=name, type="t", payload="null", at=START)


def reads(events: list[SourceEvent], after: list[object]) -> Callable[[Any, int], Any]:
    async def read(position: Any, limit: int) -> list[SourceEvent]:
        after.append(position)
        return [one for one in events if position == 0 or one.position > position][:limit]

    return read


async def routed(app: offpath.App, read: Any, **more: Any) -> Router:
    router = app.router("own", domain="d", start=more.pop("start", "beginning"), read=read, **more)
    await router.open_gate()
    return router


async def test_a_tuple_is_given_back_as_the_place_to_go_on_from(
    app: offpath.App, clock: ManualClock
) -> None:
    places: list[tuple[object, ...]] = [(START, 1), (START, 2), (START + timedelta(seconds=1), 0)]
    after: list[object] = []
    read = reads([event(place, str(place)) for place in places], after)
    router = await routed(app, read)
    clock.advance(60)
    assert [(await router.run_once(limit=1)).passed for _ in range(4)] == [1, 1, 1, 0]
    assert after == [0, *places]
    found = await app.routers.stored("own").attempts()
    assert [one.position for one in found] == [1, 2, 3]


async def test_a_tie_is_refused_wherever_it_is(app: offpath.App, clock: ManualClock) -> None:
    router = await routed(app, reads([event(1, "a"), event(2, "b"), event(2, "c")], []))
    clock.advance(60)
    with pytest.raises(PositionTied, match="unique position"):
        await router.run_once(limit=2)
    assert (await router.record()).cursors[0].passed == 0


@pytest.mark.parametrize("events", [[(0, 5), (0, 4)], [(0, 1)]])
async def test_what_is_not_above_the_last_is_refused(
    app: offpath.App, clock: ManualClock, events: list[tuple[int, int]]
) -> None:
    async def read(after: Any, limit: int) -> list[SourceEvent]:
        return [event(place, str(place)) for place in events]

    router = await routed(app, read, start=(0, 1))
    clock.advance(60)
    with pytest.raises(PositionUnordered, match=r"above|behind"):
        await router.run_once()


async def test_a_cursor_of_integers_stays_valid(app: offpath.App, clock: ManualClock) -> None:
    async def read(after: int, limit: int) -> list[LogEvent]:
        rows = [
            LogEvent(
                position=number,
                id=str(number),
                domain="d",
                type="t",
                stream="s",
                payload="null",
                at=START,
            )
            for number in (3, 1, 2)
        ]
        return [row for row in rows if row.position > after][:limit]

    router = await routed(app, read, start=1)
    clock.advance(60)
    assert (await router.run_once()).passed == 2
    cursor = (await router.record()).cursors[0]
    assert (cursor.position, cursor.mark) == (3, None)


def test_declarations_that_cannot_work_are_refused(app: offpath.App) -> None:
    async def read(after: int, limit: int) -> list[LogEvent]:
        return []

    order = ("id",)
    declarations: tuple[dict[str, Any], ...] = (
        {"read": read, "start": "now"},
        {"read": read, "table": "t", "order": order},
        {"read": read, "partitions": 2},
        {"table": "t"},
        {"table": "t", "order": "id"},
        {"table": "a.b.c", "order": order},
        {"table": "t", "order": order, "columns": {"body": "b"}},
        {"order": order},
        {"start": (1, 2)},
        {"start": (None,), "table": "t", "order": order},
    )
    for number, changes in enumerate(declarations):
        asked: dict[str, Any] = {"domain": "d", "start": "beginning", **changes}
        with pytest.raises(InvalidArgument):
            app.router(f"r{number}", **asked)
