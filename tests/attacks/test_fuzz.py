"""Input of strangers is refused by its type or understood, and nothing else happens.

Each reader gets texts that are near to what it takes, and any others, for some seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offpath import InvalidArgument
from offpath.economy import MalformedOperation, RecordFormat
from offpath.economy.ledger.archive import replayed
from offpath.economy.testing import TestSigner
from offpath.errors import OffpathError
from offpath.events import BadSignature, Verifier
from offpath.events.position import decode
from offpath.events.webhook.guard import Guard, checked_networks
from offpath.events.webhook.signature import checked_secret
from offpath.model.webhook import LONGEST_WAIT, waiting
from offpath.runtime.codec import JsonCodec

MOST = int(os.environ.get("OFFPATH_TEST_EXAMPLES", "300"))
NOW = datetime(2026, 11, 29, tzinfo=UTC)

bounded = settings(
    max_examples=MOST,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
odd = st.text(st.characters(codec=None, categories=None), max_size=60)
host = st.sampled_from(
    ["127.0.0.1", "[::1]", "0x7f.1", "017700000001", "a.example", "[::ffff:7f00:1]", "xn--", "①.②"]
)
url = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["https://", "http://", "HTTPS:/\\", "//", "ws://", ""]),
    st.one_of(st.just(""), st.just("u:p@"), odd),
    st.one_of(host, odd),
    st.one_of(st.just(""), st.just(":443"), st.just(":99999999999"), odd),
    st.one_of(st.just("/"), odd),
)
json_text = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
).map(str)


def refused_or(call: Callable[[], object], *refusals: type[Exception]) -> object:
    """The answer of the call; None when it refuses by its own type of error."""
    try:
        return call()
    except refusals:
        return None


@bounded
@given(st.one_of(url, odd))
def test_a_url_is_refused_or_public(text: str) -> None:
    found: Any = refused_or(lambda: Guard().check_url(text), InvalidArgument)
    if found is not None:
        assert found.scheme == "https"
        assert found.username is None
        assert found.hostname not in {"127.0.0.1", "::1", "localhost"}


@bounded
@given(st.one_of(odd, st.sampled_from(["10.0.0.0/8", "::/0", "10/8", "1.2.3.4/33"])))
def test_a_network_is_refused_or_one(text: str) -> None:
    refused_or(lambda: checked_networks([text]), InvalidArgument)


@bounded
@given(st.one_of(odd, odd.map("whsec_{}".format), st.binary(max_size=40)))
def test_a_secret_is_refused_or_long_enough_and_never_shown(secret: object) -> None:
    refused_or(lambda: checked_secret(secret), InvalidArgument)


@bounded
@given(
    st.one_of(st.binary(max_size=200), odd),
    st.dictionaries(
        st.one_of(
            st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature"]),
            st.text(max_size=12),
        ),
        st.one_of(odd, st.integers().map(str), odd.map("v1,{}".format), odd.map("v1a,{}".format)),
        max_size=5,
    ),
)
def test_no_post_is_genuine_by_chance(body: bytes | str, headers: dict[str, str]) -> None:
    verifier = Verifier("whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    with pytest.raises(BadSignature):
        verifier.verify(body, headers)


@bounded
@given(
    st.one_of(
        odd,
        st.integers().map(str),
        st.floats().map(str),
        st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT")),
        st.tuples(st.integers(0), st.integers(0)).map("{0[0]}, {0[1]}".format),
    )
)
def test_a_wait_that_is_asked_for_is_bounded(text: str) -> None:
    asked = waiting(text, NOW)
    assert asked is None or 0 <= asked <= LONGEST_WAIT


@bounded
@given(
    st.one_of(odd, json_text),
    st.sampled_from([int, str, list[int], dict[str, datetime], tuple[int, str], bytes, Any]),
)
def test_a_payload_is_refused_or_of_its_type(text: str, kind: Any) -> None:
    refused_or(lambda: JsonCodec().decode(text, kind), InvalidArgument)


@bounded
@given(st.one_of(odd, json_text, odd.map('["int", "{}"]'.format), odd.map('["tuple", {}]'.format)))
def test_a_position_is_refused_or_one(text: str) -> None:
    refused_or(lambda: decode(text), InvalidArgument)


@bounded
@given(
    name=st.sampled_from(["a.csv", "a.jsonl", "a.json"]),
    content=st.one_of(
        st.binary(max_size=300),
        st.lists(odd, max_size=6).map(lambda cells: ",".join(cells).encode("utf-8", "replace")),
        json_text.map(lambda text: text.encode("utf-8", "replace")),
        st.lists(st.integers(), min_size=3, max_size=3).map(
            lambda n: f"id,kind,amount,currency,at\n{n[0]},charge,{n[1]},USD,{n[2]}\n".encode()
        ),
    ),
)
def test_a_file_of_the_processor_is_refused_or_read(
    tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    refused_or(lambda: RecordFormat().read(file), OffpathError)


_head = st.builds(
    '{{"type":"archive","sealed":{{"id":"c","root":"{}","signature":"{}","count":1,"at":{},"v":{},'
    '"sum":0,"posting":{}}}}}'.format,
    st.text("0az", max_size=65),
    st.text("0az", max_size=5),
    st.integers(),
    st.integers(),
    st.integers(),
)
_account = st.builds(
    '{{"type":"account","account":"{}","number":{},"head":"{}","sum":{},"raised":{}}}'.format,
    st.sampled_from(["ann:spendable", "platform:revenue", "who", ""]),
    st.integers(),
    st.sampled_from(["0" * 64, "z" * 64, ""]),
    st.integers(),
    st.integers(),
)
_posting = st.builds(
    '{{"type":"posting","posting":{{"id":"p","meta":"{}","at":0,"seq":{},"links":[{{"account":"{}",'
    '"number":{},"posting":"p","amount":{},"entries":[{}],"balance":0,"raised":0,"prev":"{}",'
    '"hash":"","source":null,"at":0}}]}}}}'.format,
    st.sampled_from(["{}", "", "[1]"]),
    st.integers(),
    st.sampled_from(["ann:spendable", "platform:revenue", "who", ""]),
    st.integers(),
    st.integers(),
    st.integers(),
    st.sampled_from(["0" * 64, "z" * 64, ""]),
)
_end = st.builds(
    '{{"type":"end","accounts":{},"postings":1,"links":1,"sha256":"{}","closing":"","kid":"k",'
    '"signature":"{}"}}'.format,
    st.integers(),
    odd.map(lambda text: "".join(one for one in text if one.isalnum())),
    st.text("0az", max_size=5),
)


@bounded
@given(_head, st.lists(st.one_of(_account, _posting, _end, odd), max_size=5))
def test_an_archive_that_a_stranger_made_is_refused_or_does_not_hold(
    head: str, rest: list[str]
) -> None:
    lines = [f"{one}\n".encode("utf-8", "surrogatepass") for one in (head, *rest)]
    found: Any = refused_or(lambda: replayed(lines, TestSigner()), MalformedOperation)
    assert found is None or not found.proof().holds
