"""Signatures are Standard Webhooks: genuine ones pass, anything else is refused with its reason."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from offpath.errors import InvalidArgument
from offpath.events.webhook.signature import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    BadSignature,
    Verifier,
    new_key_pair,
    new_secret,
    signed_headers,
    signer,
)
from offpath.runtime.clock import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BODY = b'{"n": 1}'
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def _headers(*secrets: str, body: bytes = BODY, at: datetime = NOW) -> dict[str, str]:
    return signed_headers("msg_1", at, body, [signer(secret) for secret in secrets])


def _verifier(*keys: str, at: datetime = NOW) -> Verifier:
    return Verifier(*keys, clock=ManualClock(at))


def _reason(verifier: Verifier, body: bytes, headers: dict[str, str]) -> str:
    with pytest.raises(BadSignature) as caught:
        verifier.verify(body, headers)
    return caught.value.reason


def test_the_example_of_the_specification_gives_its_signature() -> None:
    # https://github.com/standard-webhooks/standard-webhooks, the libraries' common test vector
    at = datetime.fromtimestamp(1614265330, UTC)
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}', [signer(SECRET)]
    )
    assert headers[SIGNATURE] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers[TIMESTAMP] == "1614265330"


@given(body=st.text(max_size=200).map(str.encode))
def test_another_library_accepts_what_is_signed(body: bytes) -> None:
    headers = _headers(SECRET, body=body, at=datetime.now(UTC))
    Webhook(SECRET).verify(body, headers, json_parse=False)
    assert headers[ID] == "msg_1"


def test_what_another_library_signs_is_accepted() -> None:
    signature = Webhook(SECRET).sign("msg_1", NOW, BODY.decode())
    stamp = str(int(NOW.timestamp()))
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": stamp, "Webhook-Signature": signature}
    assert _verifier(SECRET).verify(BODY, headers) == "msg_1"


def test_a_replay_after_ten_minutes_is_refused() -> None:
    later = _verifier(SECRET, at=NOW + timedelta(minutes=10))
    assert _reason(later, BODY, _headers(SECRET)) == "too_old"


def test_a_timestamp_ahead_of_now_is_refused() -> None:
    assert _reason(_verifier(SECRET, at=NOW - timedelta(minutes=6)), BODY, _headers(SECRET)) == (
        "too_new"
    )


def test_an_altered_timestamp_is_refused() -> None:
    headers = {**_headers(SECRET), TIMESTAMP: str(int(NOW.timestamp()) + 1)}
    assert _reason(_verifier(SECRET), BODY, headers) == "no_match"


def test_an_altered_body_is_refused() -> None:
    assert _reason(_verifier(SECRET), BODY + b" ", _headers(SECRET)) == "no_match"


def test_an_altered_id_is_refused() -> None:
    assert _reason(_verifier(SECRET), BODY, {**_headers(SECRET), ID: "msg_2"}) == "no_match"


def test_both_secrets_pass_while_they_are_rotated() -> None:
    old, new = new_secret(), new_secret()
    headers = _headers(new, old)
    for known in (old, new):
        assert _verifier(known).verify(BODY, headers) == "msg_1"
    assert _verifier(old, new).verify(BODY, _headers(new)) == "msg_1"


def test_an_ed25519_signature_is_checked_with_the_public_key_alone() -> None:
    private, public = new_key_pair()
    headers = _headers(private)
    assert headers[SIGNATURE].startswith("v1a,")
    assert _verifier(public).verify(BODY, headers) == "msg_1"
    assert _reason(_verifier(public), b"other", headers) == "no_match"


def test_a_version_cannot_be_passed_off_as_the_other() -> None:
    headers = _headers(SECRET)
    headers[SIGNATURE] = headers[SIGNATURE].replace("v1,", "v1a,")
    assert _reason(_verifier(SECRET), BODY, headers) == "no_match"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({ID: ""}, "missing"),
        ({SIGNATURE: ""}, "missing"),
        ({TIMESTAMP: "soon"}, "malformed"),
        ({TIMESTAMP: "1" * 400}, "malformed"),
        ({TIMESTAMP: "-5"}, "malformed"),
        ({TIMESTAMP: "१२३"}, "malformed"),
        ({SIGNATURE: "garbage"}, "no_match"),
        ({SIGNATURE: "v1,%%%"}, "no_match"),
        ({SIGNATURE: "v1," + "A" * 100_000}, "no_match"),
        ({SIGNATURE: "v2,AAAA v1,AAAA"}, "no_match"),
    ],
)
def test_malformed_headers_are_refused_and_never_an_error_of_ours(
    change: dict[str, str], reason: str
) -> None:
    assert _reason(_verifier(SECRET), BODY, {**_headers(SECRET), **change}) == reason


@pytest.mark.parametrize("secret", ["abc", "whsec_AAAA", "whsec_%%%", "whpk_" + "A" * 44])
def test_a_bad_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        signer(secret)
    assert secret.removeprefix("whsec_").removeprefix("whpk_") not in str(caught.value)


@pytest.mark.parametrize("secret", ["", "whsec_", None])
def test_no_secret_is_refused(secret: object) -> None:
    with pytest.raises(InvalidArgument):
        signer(secret)


def test_a_verifier_needs_a_key_and_shows_none() -> None:
    with pytest.raises(InvalidArgument):
        Verifier()
    assert SECRET[6:] not in repr(Verifier(SECRET))


def test_new_secrets_are_long_enough_and_differ() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert len(base64.b64decode(one.removeprefix("whsec_"))) == 32
