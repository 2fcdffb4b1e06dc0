"""Inputs and results: what fits comes back equal, what does not is refused before it is stored."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, Unpack
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct
from pydantic import Secret, SecretBytes, SecretStr

from offpath.errors import InvalidInput, TaskError, UnsupportedType
from offpath.runtime.codec import JsonCodec
from offpath.runtime.signature import InputModel, ResultModel
from tests.unit.runtime.kinds import (
    NOW,
    Box,
    Boxed,
    Card,
    Cash,
    Cat,
    Chest,
    Colour,
    Dog,
    Left,
    Letter,
    Level,
    Login,
    Mail,
    Marked,
    Masked,
    Opened,
    Pair,
    Parcel,
    Point,
    Row,
    Shelf,
    User,
    Vault,
    Vaulted,
    Whole,
    taking,
    through,
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 2**100),
        (float, 1.5),
        (str, "x\x00\uffff\U0001f600"),
        (bool, True),
        (None, None),
        (int | None, None),
        (int | str, "1"),
        (datetime, NOW),
        (date, date(2026, 2, 28)),
        (time, time(1, 2, 3)),
        (timedelta, timedelta(days=-1, microseconds=7)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (bytes, b"\x00\xff"),
        (set[int], {3, 1}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2)),
        (dict[int, list[Decimal]], {1: [Decimal("0.1")]}),
        (dict[UUID, int], {UUID(int=1): 1}),
        (Colour, Colour.BLUE),
        (Level, Level.LOW),
        (set[Colour], {Colour.RED, Colour.BLUE}),
        (Literal["a", 1], 1),
        (Annotated[int, Meta(ge=1)], 5),
        (Point, Point(1)),
        (Mail, Mail("x", ["y"])),
        (Box, Box(3)),
        (Row, {"id": 1}),
        (Pair, Pair(1)),
        (User, User(name="n", born=date(2000, 1, 1), theAlias=4)),
        (list[User], [User(name="n")]),
        (User | None, None),
        (Card | Cash, Cash(3)),
        (list[Card | Cash], [Cash(3), Card("4")]),
        (Any, {"a": [1, None]}),
        (object, "x"),
    ],
)
def test_values_come_back_equal(kind: Any, value: Any) -> None:
    back = through(taking(kind), value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Mail | Letter, Letter("s")),
        (list[Mail | Letter], [Mail("m"), Letter("s")]),
        (Cat | Dog, Dog(tail=False)),
        (User | int, 5),
        (datetime | str, "text"),
    ],
)
def test_unions_that_msgspec_refuses_go_through_pydantic(kind: Any, value: Any) -> None:
    assert through(taking(kind), value) == value
    result = ResultModel(kind)
    assert result.decode(result.encode(value)) == value


def test_a_union_whose_member_would_change_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"come back from JSON as something else.*\$\.value"):
        through(taking(Letter | Parcel), Parcel("s"))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, "1", r"Expected `int`, got `str` - at `\$\.value`"),
        (int, True, "Expected `int`, got `bool`"),
        (int, 1.0, "Expected `int`, got `float`"),
        (int, None, "Expected `int`, got `null`"),
        (str, 1, "Expected `str`, got `int`"),
        (str, NOW, "Expected `str`, got `datetime`"),
        (str, UUID(int=1), "Expected `str`, got `uuid`"),
        (str, Colour.RED, "Expected `str`"),
        (bytes, "YQ==", "Expected `bytes`, got `str`"),
        (datetime, "2026-01-01T00:00:00Z", "Expected `datetime`, got `str`"),
        (Decimal, 1.5, "Expected `decimal`, got `float`"),
        (float, float("nan"), r"NaN.*at `\$\.value`"),
        (float | None, float("inf"), "NaN and infinity"),
        (Annotated[int, Meta(ge=1)], 0, ">= 1"),
        (list[int], [1, "2"], r"at `\$\.value\[1\]`"),
        (Mail, Mail(5), r"Expected `str`, got `int` - at `\$\.value\.to`"),  # type: ignore[arg-type]
        (Pair, Pair("a"), r"Expected `int`, got `str` - at `\$\.value\[0\]`"),  # type: ignore[arg-type]
        (Box, Box("a"), "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (User, {"born": "2020"}, r"`name`: Field required.*at `\$\.value`"),
        (str, "\ud800", r"lone surrogate.*at `\$\.value`"),
        (Any, "\ud800", r"lone surrogate.*at `\$\.value`"),
        (Any, object(), r"object have no JSON form - at `\$\.value`"),
        (dict[bool, int], {True: 1}, "key"),
        (Cat | Dog, {"kind": "cow"}, r"at `\$\.value`"),
        (Masked, Masked(password=SecretStr("s3cret")), "plain text: give a reference"),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        through(taking(kind), value)
    assert "task 'take'" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        *(SecretStr, SecretBytes, Secret[date], list[SecretStr], SecretStr | None),
        *(Login, Login | None, dict[str, list[Login]], Login | Cat, Vault, Vaulted, Chest),
        *(Annotated[SecretStr, Meta(description="a key")], Shelf, Boxed),
    ],
)
def test_a_secret_is_refused_where_the_task_is_defined(kind: Any) -> None:
    with pytest.raises(UnsupportedType, match=r"parameter .value.: .* plain text: give"):
        InputModel(taking(kind))
    with pytest.raises(UnsupportedType, match=r"its result: .* plain text: give a reference"):
        ResultModel(kind, name="make")


@pytest.mark.parametrize("kind", [Opened, Marked, Whole])
def test_a_secret_that_its_model_writes_is_the_models_affair(kind: Any) -> None:
    value = kind(password=SecretStr("s3cret"))
    assert through(taking(kind), value) == value


def test_a_secret_that_is_not_written_may_be_there() -> None:
    assert through(taking(Left), Left(user="u")) == Left(user="u")


def test_a_secret_that_the_codec_was_taught_may_be_there() -> None:
    taught: dict[type, Any] = {SecretStr: (lambda one: one.get_secret_value(), SecretStr)}
    codec = JsonCodec(types=taught)
    model = InputModel(taking(SecretStr), codec=codec)
    bound = model.bind((SecretStr("s3cret"),), {})
    assert model.decode(model.encode(bound)) == ((SecretStr("s3cret"),), {})


def test_refusals_do_not_show_the_value() -> None:
    for kind in (Colour, Literal["a", "b"], User, Cat | Dog):
        with pytest.raises(InvalidInput) as caught:
            through(taking(kind), "hunter2")
        assert "hunter2" not in str(caught.value)


def test_all_kinds_of_parameters() -> None:
    def simple(a: int, b: str = "b") -> object:
        return a, b

    def keyword(a: int, b: int = 2, *, c: int, d: int = 4) -> object:
        return a, b, c, d

    def everything(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: str) -> object:
        return a, b, rest, c, more

    def only(*, c: int) -> object:
        return c

    assert through(simple, 1) == (1, "b")
    assert through(simple, b="x", a=1) == (1, "x")
    assert through(keyword, 1, c=3) == (1, 2, 3, 4)
    assert through(keyword, 1, 5, d=6, c=3) == (1, 5, 3, 6)
    assert through(everything, 1) == (1, 2, (), 3, {})
    assert through(everything, 1, b=5) == (1, 5, (), 3, {})
    assert through(everything, 1, 2, 3, 4, c=5, a="x", b_="y") == (
        1,
        2,
        (3, 4),
        5,
        {"a": "x", "b_": "y"},
    )
    assert through(only, c=1) == 1
    assert through(lambda: "none") == "none"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"a": 1}), ((1,), {"z": 1}), ((1, 2), {"b": 3})],
)
def test_calls_that_python_would_refuse_are_refused(args: Any, kwargs: Any) -> None:
    def simple(a: int, b: int = 0) -> None: ...

    def positional(a: int, b: int = 0, /) -> None: ...

    for function in (simple, positional):
        with pytest.raises(InvalidInput, match=f"task '{function.__name__}'"):
            InputModel(function).bind(args, kwargs)


def test_names_used_inside_arrive_unchanged() -> None:
    names = ("task", "id", "self", "ctx", "args", "kwargs", "attempt", "group", "__class__", "cls")

    def collect(**kwargs: int) -> dict[str, int]:
        return kwargs

    given_names = {name: number for number, name in enumerate(names)}
    assert through(collect, **given_names) == given_names

    def named(task: int, id: int, self: int, ctx: int, args: int, kwargs: int) -> object:  # noqa: A002
        return task, id, self, ctx, args, kwargs

    assert through(named, 1, 2, self=3, ctx=4, args=5, kwargs=6) == (1, 2, 3, 4, 5, 6)

    def dunder(__init__: int, __class__: int = 2) -> object:
        return __init__, __class__

    assert through(dunder, 1, __class__=5) == (1, 5)


def test_typed_keywords() -> None:
    class Options(TypedDict, total=False):
        size: int

    def take(**options: Unpack[Options]) -> object:
        return options

    assert through(take, size=1) == {"size": 1}
    with pytest.raises(InvalidInput, match=r"Expected `int`, got `str` - at `\$\.options\.size`"):
        through(take, size="x")


def test_the_context_is_no_input() -> None:
    def handler(ctx: "Unknown", a: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    model = InputModel(handler, context=True)
    assert model.encode(model.bind((1,), {})) == '{"a":1}'
    with pytest.raises(TaskError, match="no parameter that could be the context"):
        InputModel(lambda: None, context=True)


def test_defaults_are_the_functions_own_when_it_runs() -> None:
    def handler(a: int = 1, client: Any = object()) -> object:  # noqa: B008
        return a, client

    model = InputModel(handler)
    assert model.encode(model.bind((), {})) == "{}"
    assert through(handler) == handler()


def test_stored_input_is_checked_again() -> None:
    def handler(a: int, b: Mail | None = None) -> None: ...

    model = InputModel(handler)
    for text, message in [
        ('{"a":"1"}', r"Expected `int`, got `str` - at `\$\.a`"),
        ("{}", "missing required field `a`"),
        ('{"a":1,"gone":2}', "unknown field `gone`"),
        ("[1]", "Expected `object`"),
        ("", "truncated"),
        ("[" * 100_000, "nested|Expected"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            model.decode(text)


def test_unannotated_parameters_take_what_json_holds() -> None:
    def handler(a, b=2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return a, b

    assert through(handler, {"x": [1, None]}, b="y") == ({"x": [1, None]}, "y")


def test_json_from_a_command_line() -> None:
    def handler(when: datetime, blob: bytes = b"") -> None: ...

    model = InputModel(handler)
    bound = model.from_json('{"when":"2026-03-01T12:30:01.000005Z"}')
    assert model.arguments(bound) == ((), {"when": NOW})
    with pytest.raises(InvalidInput, match=r"at `\$\.when`"):
        model.from_json('{"when":"tomorrow"}')
    union = InputModel(taking(Cat | Dog))
    assert union.arguments(union.from_json('{"value":{"kind":"dog"}}'))[0] == (Dog(),)
    with pytest.raises(InvalidInput, match=r"at `\$\.value`"):
        union.from_json('{"value":{"kind":"cow"}}')


@pytest.mark.parametrize("kind", [Callable[[int], int], Iterable[int], JsonCodec, list[JsonCodec]])
def test_types_without_a_json_form_are_refused_when_defined(kind: Any) -> None:
    if kind == Iterable[int]:
        with pytest.raises(InvalidInput):
            through(taking(kind), iter([1]))
        return
    with pytest.raises(UnsupportedType, match=r"task 'take': parameter 'value'.*Use types"):
        InputModel(taking(kind))
    with pytest.raises(UnsupportedType, match="its result"):
        ResultModel(kind, name="t")


def test_without_pydantic_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UnsupportedType, match=r"tag=True.*install pydantic"):
        InputModel(taking(Mail | Letter))


def test_annotations_that_cannot_be_resolved() -> None:
    def handler(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TaskError, match=r"task 'handler': parameter 'a'.*TYPE_CHECKING"):
        InputModel(handler)


def test_other_callables() -> None:
    class Handler:
        def method(self, a: "Point") -> int:
            return a.x

        def __call__(self, a: "Point", b: int) -> int:
            return a.x + b

    assert through(Handler().method, Point(3)) == 3
    assert through(Handler(), Point(3), b=1) == 4
    assert through(partial(Handler(), b=1), Point(3)) == 4


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(JSON)
def test_any_json_comes_back(value: Any) -> None:
    assert through(taking(Any), value) == value


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(UTC)), st.decimals(allow_nan=False, allow_infinity=False))
def test_typed_values_come_back(moment: datetime, amount: Decimal) -> None:
    def take(moment: datetime, amount: Decimal) -> object:
        return moment, amount

    assert through(take, moment, amount) == (moment, amount)


@settings(deadline=None)
@given(st.text())
def test_any_stored_text_is_read_or_refused(text: str) -> None:
    model = InputModel(taking(int))
    try:
        model.decode(text)
    except InvalidInput:
        return
    assert isinstance(msgspec.json.decode(text)["value"], int)


NAIVE = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - without a zone is the point


class Visit(Struct):
    at: datetime


class Wall(Struct):
    at: Annotated[datetime, Meta(tz=False)]


def at_time(at: datetime) -> None: ...
def at_times(at: list[datetime]) -> None: ...
def at_perhaps(at: dict[str, datetime | None]) -> None: ...
def at_visit(at: Visit) -> None: ...
def at_wall(at: Wall) -> None: ...


@pytest.mark.parametrize(
    ("function", "value", "path"),
    [
        (at_time, NAIVE, "$.at"),
        (at_times, [NAIVE.replace(tzinfo=UTC), NAIVE], "$.at[1]"),
        (at_perhaps, {"a": None, "b": NAIVE}, "$.at.b"),
        (at_visit, Visit(NAIVE), "$.at.at"),
    ],
)
def test_a_time_without_a_zone_is_refused_with_its_place(
    function: Any, value: Any, path: str
) -> None:
    model = InputModel(function)
    with pytest.raises(InvalidInput, match=re.escape(f"at `{path}`")) as said:
        model.encode(model.bind((value,), {}))
    assert "datetime.now(UTC)" in str(said.value)


def test_a_time_of_the_clock_on_the_wall_is_kept_where_it_is_annotated() -> None:
    model = InputModel(at_wall)
    text = model.encode(model.bind((Wall(NAIVE),), {}))
    assert model.decode(text) == ((Wall(NAIVE),), {})
