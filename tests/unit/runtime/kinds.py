"""Types that inputs and results are made of, and the way there and back."""

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
from msgspec import Struct
from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    SecretStr,
    field_serializer,
    model_serializer,
)

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


@dataclass
class Vault:
    key: SecretStr


class Vaulted(BaseModel):
    vaults: list[Vault]


class Chest(Struct):
    inner: "Chest | None"
    login: Login


class Shelf(BaseModel):
    below: "Shelf | None" = None
    logins: dict[str, Login] = {}


@attrs.define
class Boxed:
    login: Login


class Masked(BaseModel):
    """Whose own serializer keeps the stars, so that only a value can tell."""

    password: SecretStr

    @field_serializer("password")
    def _masked(self, value: SecretStr) -> str:
        return str(value)


class Opened(BaseModel):
    password: SecretStr

    @field_serializer("password")
    def _opened(self, value: SecretStr) -> str:
        return value.get_secret_value()


class Marked(BaseModel):
    password: Annotated[SecretStr, PlainSerializer(lambda one: one.get_secret_value())]


class Whole(BaseModel):
    password: SecretStr

    @model_serializer
    def _whole(self) -> dict[str, str]:
        return {"password": self.password.get_secret_value()}


class Left(BaseModel):
    user: str
    password: SecretStr | None = Field(default=None, exclude=True)


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
