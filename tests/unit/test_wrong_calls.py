"""Calls that cannot be meant are answered by an error that says what to write instead."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.errors import OffpathError

_ROW = re.compile(r"^(?P<call>\S.*)\n    (?P<error>\w+): (?P<words>.*)$", re.MULTILINE)
ROWS = [
    (row["call"], row["error"], row["words"])
    for row in _ROW.finditer(Path(__file__).with_name("wrong_calls.txt").read_text("utf-8"))
]


def f(a: int) -> int:
    return a


def star(*args: Any, **more: Any) -> None:
    """A function of anything."""


def lines(*, line: int, of: str = "secret") -> None:
    """A function of keywords."""


def rest(a: int, /, *, line: int = 1) -> None:
    """A function of an argument by place."""


def gen() -> Any:
    yield 1


def untyped_set(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - as beginners write
    return x


def nanf(x: float) -> float:
    return x


def naive(x: datetime) -> None:
    """A function of a time."""


def big(x: str) -> None:
    """A function of a text."""


@pytest.fixture
async def names() -> AsyncIterator[dict[str, Any]]:
    """What a call may speak of."""
    app = offpath.App(auto_start=False)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    async with app:
        handle = await add.enqueue(1, 2)
        own = {"app": app, "add": add, "handle": handle, "offpath": offpath, "UTC": UTC}
        functions = (f, star, lines, rest, gen, untyped_set, nanf, naive, big)
        yield {
            **own, "datetime": datetime, "timedelta": timedelta,
            **{each.__name__: each for each in functions},
        }  # fmt: skip


def test_there_are_many() -> None:
    assert len(ROWS) >= 150
    assert len({call for call, _, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("call", "error", "words"), ROWS, ids=[call for call, _, _ in ROWS])
async def test_a_wrong_call_is_told_what_is_meant(
    names: dict[str, Any], call: str, error: str, words: str
) -> None:
    exec(f"async def go():\n    return {call}", names)
    with pytest.raises((OffpathError, AttributeError)) as raised:
        given = await asyncio.wait_for(names["go"](), 30)
        if inspect.iscoroutine(given):  # a call that was to be awaited, and was taken
            given.close()
    assert type(raised.value).__name__ == error
    assert words in str(raised.value)
