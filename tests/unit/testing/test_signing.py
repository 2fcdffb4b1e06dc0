"""Headers for a receiver's tests are those of a genuine webhook."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offpath.errors import InvalidArgument
from offpath.events import BadSignature, Verifier, new_key_pair, new_secret
from offpath.testing import signed_webhook

BODY = b'{"a": 1}'


def test_they_pass_under_each_secret() -> None:
    shared, (private, public) = new_secret(), new_key_pair()
    headers = signed_webhook(BODY, shared, private, id="msg_1")
    assert headers["webhook-signature"].split(" ")[1].startswith("v1a,")
    assert Verifier(shared).verify(BODY, headers) == "msg_1"
    assert Verifier(public).verify(BODY, headers) == "msg_1"


def test_ids_are_new_and_times_may_be_others() -> None:
    secret = new_secret()
    verifier = Verifier(secret)
    ids = {verifier.verify(BODY, signed_webhook(BODY, secret)) for _ in range(3)}
    assert len(ids) == 3
    late = signed_webhook(BODY, secret, at=datetime.now(UTC) - timedelta(minutes=10))
    with pytest.raises(BadSignature) as refused:
        verifier.verify(BODY, late)
    assert refused.value.reason == "too_old"


def test_what_is_no_secret_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        signed_webhook(BODY, "hunter2")
