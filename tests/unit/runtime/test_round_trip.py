"""A stored value comes back as it was, or is refused where it is given, with its place."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from offpath.errors import InvalidArgument, InvalidInput
from offpath.runtime.codec import JsonCodec
from offpath.runtime.signature import InputModel, ResultModel

T = TypeVar("T")


class Base(pydantic.BaseModel):
    name: str


class Child(Base):
    age: int


class Box(pydantic.BaseModel, Generic[T]):
    inside: T


@dataclasses.dataclass
class Plain:
    name: str


@dataclasses.dataclass
class Richer(Plain):
    age: int = 0


class Record(msgspec.Struct):
    name: str


class Longer(Record):
    age: int = 0


class Colour(Enum):
    RED = "red"


class Money:
    """A class without an equality, taught to the codec."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    @classmethod
    def parse(cls, text: str) -> Money:
        return cls(int(text))

    def __str__(self) -> str:
        return str(self.cents)


PARIS, BERLIN = ZoneInfo("Europe/Paris"), ZoneInfo("Europe/Berlin")


def anything(a: Any) -> None: ...
def untyped(a) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
def a_dict(a: dict) -> None: ...  # type: ignore[type-arg]
def a_list(a: list) -> None: ...  # type: ignore[type-arg]
def an_object(a: object) -> None: ...
def a_base(a: Base) -> None: ...
def bases(a: list[Base]) -> None: ...
def base_tuple(a: tuple[Base, ...]) -> None: ...
def base_dict(a: dict[str, Base]) -> None: ...
def maybe_base(a: Base | None) -> None: ...
def box_of_base(a: Box[Base]) -> None: ...
def a_plain(a: Plain) -> None: ...
def plains(a: list[Plain]) -> None: ...
def a_record(a: Record) -> None: ...
def records(a: list[Record]) -> None: ...
def a_moment(a: datetime) -> None: ...
def moments(a: list[datetime]) -> None: ...
def moments_by_name(a: dict[str, tuple[datetime, ...]]) -> None: ...


CHILD = Child(name="a", age=3)
REFUSED: list[tuple[Callable[..., Any], Any, str]] = [
    (anything, datetime(2025, 1, 1, tzinfo=UTC), "$.a"),
    (anything, date(2025, 1, 1), "$.a"),
    (anything, Decimal("1.10"), "$.a"),
    (anything, {1, 2}, "$.a"),
    (anything, (1, 2), "$.a"),
    (anything, b"raw", "$.a"),
    (anything, Colour.RED, "$.a"),
    (untyped, timedelta(seconds=1), "$.a"),
    (an_object, Plain("x"), "$.a"),
    (a_dict, {7: "x"}, "key in $.a"),
    (a_dict, {"day": date(2025, 1, 1)}, "$.a.day"),
    (a_dict, {"deep": [{"er": {1, 2}}]}, "$.a.deep[0].er"),
    (a_list, [1, [datetime(2025, 1, 1, tzinfo=UTC)]], "$.a[1][0]"),
    (a_base, CHILD, "$.a"),
    (bases, [Base(name="x"), CHILD], "$.a[1]"),
    (base_tuple, (CHILD,), "$.a[0]"),
    (base_dict, {"x": CHILD}, "$.a.x"),
    (maybe_base, CHILD, "$.a"),
    (a_plain, Richer("x", 3), "$.a"),
    (plains, [Plain("x"), Richer("x", 3)], "$.a[1]"),
    (a_record, Longer("x", 3), "$.a"),
    (records, [Longer("x", 3)], "$.a[0]"),
]


@pytest.mark.parametrize(
    ("task", "value", "path"), REFUSED, ids=[f"{one[0].__name__}-{one[2]}" for one in REFUSED]
)
def test_what_would_change_is_refused_with_its_place(
    task: Callable[..., Any], value: Any, path: str
) -> None:
    model = InputModel(task)
    with pytest.raises(InvalidInput) as refusal:
        model.encode(model.bind((value,), {}))
    assert f"at `{path}`" in str(refusal.value)
    assert "1.10" not in str(refusal.value)


def test_a_model_that_holds_a_richer_one_is_refused() -> None:
    model = InputModel(box_of_base)
    with pytest.raises(InvalidInput, match="inside"):
        model.encode(model.bind((Box[Base](inside=CHILD),), {}))


KEPT: list[tuple[Callable[..., Any], Any]] = [
    (anything, {"a": [1, 2.5, "x", None, True]}),
    (anything, OrderedDict(a=1)),
    (a_base, Base(name="x")),
    (bases, [Base(name="x")]),
    (a_plain, Plain("x")),
    (records, [Record("x")]),
    (a_moment, datetime(1895, 1, 1, tzinfo=PARIS)),
    (moments, [datetime(1895, 1, 1, tzinfo=PARIS), datetime(2025, 1, 1, tzinfo=UTC)]),
    (moments_by_name, {"a": (datetime(1895, 1, 1, tzinfo=PARIS),)}),
    (a_moment, datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=BERLIN)),
    (a_moment, datetime(2025, 10, 26, 2, 30, fold=0, tzinfo=BERLIN)),
    (a_moment, datetime(2025, 3, 30, 2, 30, tzinfo=BERLIN)),
]


@pytest.mark.parametrize(
    ("task", "value"), KEPT, ids=[f"{index}-{one[0].__name__}" for index, one in enumerate(KEPT)]
)
def test_what_is_kept_comes_back_equal(task: Callable[..., Any], value: Any) -> None:
    model = InputModel(task)
    text = model.encode(model.bind((value,), {}))
    args, kwargs = model.decode(text)
    (again,) = (*args, *kwargs.values())
    if isinstance(value, datetime):
        assert again.astimezone(UTC) == value.astimezone(UTC)
    else:
        assert again == value


@pytest.mark.parametrize("kind", [Money, list[Money], dict[str, Money], Money | None])
def test_a_type_that_was_taught_to_the_codec_goes_wherever_a_value_goes(kind: Any) -> None:
    codec = JsonCodec(types={Money: (str, Money.parse)})
    money = Money(110)
    value = {list[Money]: [money], dict[str, Money]: {"a": money}}.get(kind, money)

    def task(a: Any) -> Any: ...

    task.__annotations__ = {"a": kind, "return": kind}
    inputs, results = InputModel(task, codec=codec), ResultModel(kind, codec=codec)
    args, kwargs = inputs.decode(inputs.encode(inputs.bind((value,), {})))
    for again in (*args, *kwargs.values(), results.decode(results.encode(value))):
        found = again["a"] if isinstance(again, dict) else again
        found = found[0] if isinstance(found, list) else found
        assert (type(found), found.cents) == (Money, 110)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Base, CHILD), (list[Base], [CHILD]), (Plain, Richer("x", 3)), (Record, Longer("x", 3))],
    ids=["model", "models", "dataclass", "struct"],
)
def test_a_result_that_would_lose_fields_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"come back from JSON|Expected `object`"):
        ResultModel(kind).encode(value)


def test_a_result_whose_annotation_promises_nothing_is_written_as_json_has_it() -> None:
    value = {"at": datetime(2025, 1, 1, tzinfo=UTC), "ids": {1}, "pair": (1, 2)}
    for kind in (Any, dict, object):
        results = ResultModel(kind)
        again = results.decode(results.encode(value))
        assert again == {"at": "2025-01-01T00:00:00Z", "ids": [1], "pair": [1, 2]}


def test_a_path_is_kept_where_it_is_annotated_and_refused_where_not() -> None:
    codec = JsonCodec(types={Path: (str, Path)})

    def task(a: Path) -> None: ...

    task.__annotations__ = {"a": Path, "return": None}
    model = InputModel(task, codec=codec)
    assert model.decode(model.encode(model.bind((Path("x"),), {})))[0] == (Path("x"),)
    loose = InputModel(anything, codec=codec)
    with pytest.raises(InvalidInput, match=r"at `\$\.a`"):
        loose.encode(loose.bind((Path("x"),), {}))


class Guarded(pydantic.BaseModel):
    """A model whose stored form its own validator refuses, quoting the value."""

    secret: str

    @pydantic.field_validator("secret")
    @classmethod
    def _check(cls, value: str) -> str:
        if value.startswith("{"):
            raise ValueError("no braces")
        return value

    @pydantic.field_serializer("secret")
    def _write(self, value: str) -> str:
        return "{" + value + "}"


def guarded(a: Guarded) -> None: ...


def test_a_rejected_value_is_not_quoted() -> None:
    """T2-17: what a foreign library says of a value may quote it."""
    model = InputModel(guarded)
    with pytest.raises(InvalidInput) as refusal:
        model.encode(model.bind((Guarded(secret="hunter2"),), {}))
    error: BaseException | None = refusal.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__
    assert "no braces" in str(refusal.value)
