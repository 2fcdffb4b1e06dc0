"""Headers of a job: what may be one, how many, how large; and those that join them."""

from __future__ import annotations

import pytest

from offpath.errors import InvalidArgument
from offpath.model.headers import (
    MOST,
    MOST_BYTES,
    NO_HEADERS,
    decoded_headers,
    encoded_headers,
    with_headers,
)


def test_they_come_back_as_they_were_given() -> None:
    given = {"tenant": "acme", "x-1.a_b": "ä 😀\n", "empty": ""}
    assert decoded_headers(encoded_headers(given)) == given


@pytest.mark.parametrize("given", [None, {}])
def test_none_are_kept_as_nothing(given: object) -> None:
    assert encoded_headers(given) is None
    assert decoded_headers(None) is NO_HEADERS


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["tenant"], "mapping of texts by name, not list"),
        ("tenant=acme", "not str"),
        ({"Tenant": "a"}, "1 to 64 characters of a-z"),
        ({"": "a"}, "begin with a letter or a digit"),
        ({"-a": "a"}, "begin with a letter or a digit"),
        ({"a\n": "a"}, "1 to 64 characters"),
        ({"a" * 65: "a"}, "1 to 64 characters"),
        ({1: "a"}, "header name 1 must"),
        ({"n": 1}, "header n must be a str, not int"),
        ({"n": None}, "header n must be a str, not NoneType"),
        ({"n": "a\0"}, "must not have NUL"),
        ({f"n{n}": "" for n in range(MOST + 1)}, "at most 64 headers, not 65"),
        ({"n": "ä" * (MOST_BYTES // 2)}, "have 8193 bytes, over the limit of 8192"),
    ],
)
def test_what_cannot_be_is_refused(given: object, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        encoded_headers(given)


def test_the_bounds_themselves_are_kept() -> None:
    most = {f"{n:02}" * 32: "a" * (MOST_BYTES // MOST - 64) for n in range(MOST)}
    assert decoded_headers(encoded_headers(most)) == most


def test_what_joins_them_names_nothing_anew() -> None:
    text = encoded_headers({"tenant": "acme"})
    joined = with_headers(text, {"tenant": "other", "request": "r1"})
    assert decoded_headers(joined) == {"tenant": "acme", "request": "r1"}
    assert with_headers(text, {"tenant": "other"}) == text
    assert with_headers(None, {}) is None


def test_what_does_not_fit_beside_them_is_left_out() -> None:
    full = encoded_headers({"large": "a" * (MOST_BYTES - 20)})
    joined = with_headers(full, {"small": "b", "larger": "c" * 100})
    assert set(decoded_headers(joined)) == {"large", "small"}
