"""Types that inputs and results are made of, and the way there and back."""

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
from msgspec import Struct
from pydantic import BaseModel, Field, SecretStr

from offpath.runtime.signature import InputModel


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(Struct):
    x: int
    y: int = 0


@dataclass
class Mail:
    to: str
    copies: list[str] = field(default_factory=list)


@dataclass
class Letter:
    street: str


@dataclass
class Parcel:
    street: str


@attrs.define
class Box:
    width: int


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class User(BaseModel):
    name: str
    born: date | None = None
    alias: int = Field(default=0, alias="theAlias")


class Login(BaseModel):
    user: str
    password: SecretStr


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tail: bool = True


class Card(Struct, tag=True):
    number: str


class Cash(Struct, tag=True):
    amount: int


def through(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Bind, encode, decode and call ``function``."""
    model = InputModel(function)
    text = model.encode(model.bind(args, kwargs))
    json.loads(text)
    back = model.decode(text)
    assert model.arguments(model.bind(args, kwargs)) == back
    return function(*back[0], **back[1])


def taking(kind: Any) -> Callable[..., Any]:
    """A function of one parameter of this type, which it returns."""

    def take(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return value

    take.__annotations__["value"] = kind
    return take


NOW = datetime(2026, 3, 1, 12, 30, 1, 5, tzinfo=UTC)
