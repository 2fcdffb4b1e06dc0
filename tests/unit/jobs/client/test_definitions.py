"""What cannot be meant is refused where a task is defined, before anything is enqueued."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from offpath import App, Context
from offpath.errors import InvalidArgument, TaskError


class Size(enum.StrEnum):
    SMALL = "small"


def text_for_a_number(a: int = "x") -> None:  # type: ignore[assignment]
    pass


def nothing_for_a_number(ctx: Context, a: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
    pass


def wrong_inside(*, a: list[int] = ["x"]) -> None:  # type: ignore[list-item]  # noqa: B006
    pass


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (text_for_a_number, "default of parameter 'a' is not of its type: Expected `int`"),
        (nothing_for_a_number, "got `null`"),
        (wrong_inside, r"at `\$\[0\]`"),
    ],
)
def test_a_default_that_no_caller_could_give_is_refused(
    function: Callable[..., None], told: str
) -> None:
    with pytest.raises(TaskError, match=told):
        App().task(function)


async def test_defaults_that_fit_are_taken_and_count(app: App) -> None:
    @app.task
    def fits(  # type: ignore[no-untyped-def]
        a: float = 1,
        b: Size = Size.SMALL,
        c: date | None = None,
        d: tuple[int, ...] = (),
        e: Any = Size,
        f=object,  # noqa: ANN001
    ) -> list[str]:
        return [type(one).__name__ for one in (a, b, c, d)]

    handle = await fits.enqueue()
    assert await handle.result(timeout=10) == ["int", "Size", "NoneType", "tuple"]


class NoCodec:
    def encode(self, value: object) -> str:
        return str(value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"strict": "no"}, "strict is True or False, not 'no'"),
        ({"inline": 1}, "inline is True or False, not 1"),
        ({"codec": NoCodec()}, "has no decode"),
        ({"codec": 5}, "has no encode and no decode"),
        ({"unique": lambda a, b, c: a}, r"unique is called with the task's own arguments \(a, b\)"),
        ({"limit": lambda: None}, "limit is called with"),
        ({"fair_key": lambda a: a}, "fair_key is called with"),
        ({"options": lambda a, *, b: None}, "options is called with"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, Any], told: str) -> None:
    def handler(a: int, b: int) -> None: ...

    with pytest.raises(TaskError, match=told):
        App().task(**settings)(handler)


def test_details_of_announcements_are_a_yes_or_no() -> None:
    wrong: Any = "x"
    with pytest.raises(InvalidArgument, match="announce_details is True or False"):
        App().task(name="a", announce_details=wrong)(lambda: None)


def test_functions_of_arguments_that_fit_are_taken() -> None:
    app = App()

    @app.task(unique=lambda *any_, **other: "one", limit=lambda a, **rest: None)
    def handler(a: int, *, b: int = 2) -> None: ...

    @app.task(unique=lambda *names: names[0])
    def many(*names: str) -> None: ...
