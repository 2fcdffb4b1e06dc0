import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from offpath.errors import InvalidArgument, UnsupportedType
from offpath.runtime.codec import Fingerprints, JsonCodec, fingerprint


class Money:
    def __init__(self, text: str) -> None:
        self.amount, self.currency = text.split()


class Handmade:
    """A class nobody can write as JSON."""


def test_any_json_value_comes_back_equal() -> None:
    codec = JsonCodec()
    value = {"a": [1, 2.5, None, True, "x\x00\u2028"], "n": 2**200, "": {"deep": [[[]]]}}
    assert codec.decode(codec.encode(value), Any) == value


def test_text_is_ordinary_json() -> None:
    assert json.loads(JsonCodec().encode({"d": Decimal("1.10"), "b": b"\xff"})) == {
        "d": "1.10",
        "b": "/w==",
    }


def test_order_of_a_dict_is_kept() -> None:
    assert JsonCodec().encode({"b": 1, "a": 2}) == '{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, float("nan")]}, "$.a[1]"),
        ([float("inf")], "$[0]"),
        ({"x": {"y": -float("inf"), "z": None}}, "$.x.y"),
    ],
)
def test_nan_and_infinity_are_refused_with_their_path(value: Any, path: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        JsonCodec().encode(value)
    assert f"NaN and infinity cannot be written as JSON - at `{path}`" in str(caught.value)


def test_null_in_text_is_no_nan() -> None:
    assert JsonCodec().encode({"null": None, "a": "null"}) == '{"null":null,"a":"null"}'


@pytest.mark.parametrize(
    ("value", "why", "path"),
    [
        ({"a": {"b c": "x\ud800"}}, "lone surrogate", "$.a[...]"),
        ({"\ud800": 1}, "lone surrogate", "key in $"),
        ([1, (2, Handmade())], "objects of type Handmade have no JSON form", "$[1][1]"),
        ({("a", 1): 1}, "dict keys of type tuple", "$"),
    ],
)
def test_what_json_cannot_hold_is_named(value: Any, why: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        JsonCodec().encode(value)
    assert why in str(caught.value)
    assert str(caught.value).endswith(f"at `{path}`")


def test_the_field_of_an_object_is_named() -> None:
    @dataclass
    class Mail:
        to: str
        body: Any

    with pytest.raises(InvalidArgument, match=r"at `\$\.body\[0\]`"):
        JsonCodec().encode(Mail("x", ["\udfff"]))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgument, match="contains itself"):
        JsonCodec().encode(loop)


def test_deep_text_is_refused_not_fatal() -> None:
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        JsonCodec().decode("[" * 100_000, Any)


def test_decoding_names_the_path() -> None:
    with pytest.raises(InvalidArgument, match=r"Expected `int`, got `str` - at `\$\[1\]`"):
        JsonCodec().decode('[1,"2"]', list[int])


@pytest.mark.parametrize("text", ["", "{", "nul", '{"a":1}x', "\x80\x04N."])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        JsonCodec().decode(text, Any)


def test_own_types() -> None:
    codec = JsonCodec(types={Money: (lambda m: f"{m.amount} {m.currency}", Money)})
    text = codec.encode([Money("5 EUR")])
    assert text == '["5 EUR"]'
    assert codec.decode(text, list[Money])[0].currency == "EUR"
    with pytest.raises(UnsupportedType, match=r"Money have no JSON form.*types="):
        JsonCodec().decode(text, list[Money])


def test_subclasses_of_plain_types() -> None:
    class Safe(str):
        __slots__ = ()

    class Count(int):
        pass

    class Weight(float):
        def __str__(self) -> str:
            return "heavy"

    assert JsonCodec().encode([Safe("x"), Count(3), Weight(1.5)]) == '["x",3,1.5]'


def test_pydantic_models_without_annotation() -> None:
    class Point(BaseModel):
        x: int

    assert JsonCodec().encode({"p": Point(x=1)}) == '{"p":{"x":1}}'


def test_annotations_that_cannot_be_hashed() -> None:
    kind = Annotated[list[int], {"unhashable": []}]
    assert JsonCodec().decode("[1]", kind) == [1]


def test_what_a_users_hook_raises_is_a_refusal() -> None:
    def fail(_: Any) -> Any:
        raise KeyError("x")

    codec = JsonCodec(types={Money: (fail, fail)})
    with pytest.raises(InvalidArgument, match="x"):
        codec.encode(Money("1 EUR"))
    with pytest.raises(InvalidArgument, match="KeyError"):
        codec.decode('"1 EUR"', Money)


def test_fingerprint() -> None:
    assert fingerprint("a", "b") == fingerprint("a", "b")
    assert len(fingerprint("a")) == 32
    assert len({fingerprint("ab"), fingerprint("a", "b"), fingerprint("a", "", "b")}) == 3


@pytest.mark.parametrize(
    ("task", "text", "stored"),
    [
        ("mail.send", '{"n":1}', "df7051eb504d895b7d57bf6794cd9bb7"),
        ("zahlung.für", '{"name":"Zoë ☃"}', "1241d83e39e6dcd87194daf6fa4e8f97"),
        ("t", "", "51f4c42fbe89c89211f4aad2e58e3989"),
    ],
)
def test_a_fingerprint_stays_as_it_is_stored(task: str, text: str, stored: str) -> None:
    """Another value would make each repeat over an upgrade a conflict."""
    prints = Fingerprints(task)
    assert prints.of(text) == stored
    assert prints.of("another") != stored
    assert prints.of(text) == stored  # one does not change the next
    assert fingerprint(task, text) == stored
