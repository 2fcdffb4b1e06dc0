"""Codecs of one's own, fingerprints, results and schemas."""

import json
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from msgspec import Meta

from offpath.errors import InvalidArgument
from offpath.runtime.codec import JsonCodec
from offpath.runtime.signature import InputModel, ResultModel
from tests.unit.runtime.kinds import Cat, Colour, Dog, Mail, User, taking


class Reversed:
    """A codec of the user's own."""

    def __init__(self) -> None:
        self._json = JsonCodec()

    def encode(self, value: Any) -> str:
        return self._json.encode(value)[::-1]

    def decode(self, text: str, type: Any) -> Any:  # noqa: A002
        return self._json.decode(text[::-1], type)


def test_a_codec_of_ones_own() -> None:
    model = InputModel(taking(User), codec=Reversed())
    text = model.encode(model.bind((User(name="n"),), {}))
    assert text.startswith("}}")
    assert model.decode(text) == ((User(name="n"),), {})
    result = ResultModel(Mail, codec=Reversed())
    assert result.decode(result.encode(Mail("x"))) == Mail("x")


def test_fingerprints_do_not_depend_on_order() -> None:
    def same(kind: Any, one: Any, other: Any) -> bool:
        model = InputModel(taking(kind))
        made = []
        for value in (one, other):
            bound = model.bind((value,), {})
            made.append(model.fingerprint(bound, model.encode(bound)))
        return made[0] == made[1]

    assert same(dict[str, int], {"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert same(Any, {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1})
    assert same(set[str], {"a", "b", "c"}, {"c", "b", "a"})
    assert same(set[Colour], {Colour.RED, Colour.BLUE}, {Colour.BLUE, Colour.RED})
    assert same(dict[int, int], {1: 1, 2: 2}, {2: 2, 1: 1})
    assert not same(dict[str, int], {"a": 1}, {"a": 2})
    assert not same(list[int], [1, 2], [2, 1])


def test_fingerprints_of_what_cannot_be_compared() -> None:
    @dataclass(frozen=True)
    class Tag:
        colour: Colour

    model = InputModel(taking(dict[int, set[Tag]]))
    tags = [Tag(Colour.RED), Tag(Colour.BLUE)]
    first = model.bind(({1: set(tags), 2: set()},), {})
    second = model.bind(({2: set(), 1: {tags[1], tags[0]}},), {})
    text = model.encode(first)
    assert model.fingerprint(first, text) == model.fingerprint(second, text)


def test_fingerprints_differ_by_task() -> None:
    one, two = (InputModel(taking(int), name=name) for name in ("one", "two"))
    bound = one.bind((1,), {})
    assert one.fingerprint(bound, "{}") != two.fingerprint(bound, "{}")


def test_results() -> None:
    async def coroutine() -> int:
        return 1

    def awaitable() -> Awaitable[Mail]: ...  # type: ignore[empty-body]

    def coroutine_typed() -> Coroutine[Any, Any, Colour]: ...  # type: ignore[empty-body]

    def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return None

    for function, value in [
        (coroutine, 1),
        (awaitable, Mail("x")),
        (coroutine_typed, Colour.RED),
        (untyped, [1]),
    ]:
        model = ResultModel.of(function)
        assert model.decode(model.encode(value)) == value
    assert ResultModel.of(untyped).encode(None) is None
    assert ResultModel(None).encode(None) is None
    assert ResultModel(int | None).encode(None) is None
    assert ResultModel(int).decode(None) is None


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, "x", "result of task 't': Expected `int`, got `str`"),
        (int, None, "Expected `int`, got `null`"),
        (None, 5, "Expected `null`, got `int`"),
        (Any, "\ud800", "lone surrogate"),
        (Any, object(), "no JSON form"),
        (Mail, Mail(1), r"Expected `str`, got `int` - at `\$\.to`"),  # type: ignore[arg-type]
        (Cat | Dog, 3, "`Cat`: Input should be"),
    ],
)
def test_results_that_do_not_fit_are_refused(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ResultModel(kind, name="t").encode(value)


def test_a_stored_result_that_fits_no_more_is_refused() -> None:
    for kind in (int, Cat | Dog):
        with pytest.raises(InvalidArgument, match="result of task 't'"):
            ResultModel(kind, name="t").decode('"x"')


def test_schemas() -> None:
    def handler(
        a: Annotated[int, Meta(ge=1)],
        user: User,
        mail: Mail | None = None,
        pet: Cat | Dog | None = None,
    ) -> User:
        return user

    schema = InputModel(handler).schema()
    assert schema["title"] == "handler"
    assert schema["required"] == ["a", "user"]
    assert schema["properties"]["a"] == {"type": "integer", "minimum": 1}
    assert schema["properties"]["user"]["properties"]["name"] == {"title": "Name", "type": "string"}
    assert {"Cat", "Dog", "Mail"} <= set(schema["$defs"])
    assert json.dumps(schema).count("$defs") == json.dumps(schema).count("#/$defs/") + 1
    assert ResultModel.of(handler).schema()["title"] == "User"
    assert ResultModel(int).schema() == {"type": "integer"}
    assert "anyOf" in ResultModel(Cat | Dog).schema()
