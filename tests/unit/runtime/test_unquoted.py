"""What foreign code says of a value is told without the value, and the place of the error stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from offpath.errors import InvalidArgument, InvalidInput
from offpath.runtime.codec import JsonCodec
from offpath.runtime.signature import InputModel, ResultModel
from offpath.runtime.unquoted import unquoted, unquoted_json

SECRET = "hunter2\n"


class Card(msgspec.Struct):
    number: str

    def __post_init__(self) -> None:
        if self.number == SECRET:
            raise ValueError(f"{self.number!r} is not a number")


@dataclass
class Purse:
    number: str

    def __post_init__(self) -> None:
        if self.number == SECRET:
            raise ValueError(f"{self.number} is not a number")


STORED = '{"it":{"number":"hunter2\\n"}}'


@pytest.mark.parametrize("kind", [Card, Purse])
def test_structs_and_dataclasses_that_quote_are_told_without_it(kind: Any) -> None:
    def task(it: Any) -> None: ...

    task.__annotations__["it"] = kind
    model = InputModel(task)
    with pytest.raises(InvalidInput) as decoded:
        model.decode(STORED)
    with pytest.raises(InvalidInput) as given:
        model.from_json(STORED)
    with pytest.raises(InvalidArgument) as result:
        ResultModel(kind).decode('{"number":"hunter2\\n"}')
    with pytest.raises(InvalidArgument) as elsewhere:
        JsonCodec().decode('{"number":"hunter2\\n"}', kind)
    for refusal, place in ((decoded, "$.it"), (given, "$.it"), (result, ""), (elsewhere, "")):
        assert "is not a number" in str(refusal.value)
        assert place in str(refusal.value)
        error: BaseException | None = refusal.value
        while error is not None:
            assert "hunter2" not in str(error)
            error = error.__cause__


def test_values_are_taken_out_wherever_they_lie_and_places_stay() -> None:
    given = {"a": ["alpha", {"b": 12345}], "c": Card("card")}
    text = "alpha or 12345 of card is wrong - at `$.alpha`"
    assert unquoted(text, given) == "… or … of … is wrong - at `$.alpha`"
    assert unquoted("'a' is not 1", {"x": "a", "y": 1}) == "'a' is not 1", "parts of any word"
    assert unquoted("alphabet, alpha", ["alpha", "alphabet"]) == "…, …"
    assert unquoted_json("alpha is wrong", '{"a": "alpha"') == "alpha is wrong", "it is not JSON"


def test_what_holds_itself_is_looked_at_once() -> None:
    circle: list[Any] = ["alpha"]
    circle.append(circle)
    assert unquoted("alpha", circle) == "…"
