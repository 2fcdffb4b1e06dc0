"""A Flask service that receives webhooks: two lines check that one is genuine and fresh.

Needs: pip install offpath flask
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Flask, request

from offpath.events import BadSignature, Verifier, new_secret
from offpath.testing import signed_webhook

SECRET = new_secret()  # the sender's: offpath endpoints add ... shows it once

service = Flask(__name__)
verifier = Verifier(SECRET)
seen: set[str] = set()


@service.post("/hooks")
def receive() -> tuple[dict[str, str], int]:
    body = request.get_data()  # the raw bytes: parsed and encoded again, they are others
    try:
        message_id = verifier.verify(body, request.headers)
    except BadSignature as error:
        return {"refused": error.reason}, 401
    if message_id in seen:  # the same at every attempt of the sender
        return {"status": "duplicate"}, 200
    seen.add(message_id)
    print("received:", request.get_json()["type"])
    return {"status": "accepted"}, 200


def main() -> None:
    """Play the sender, through Flask's own test client."""
    client = service.test_client()
    body = b'{"type": "order.paid", "data": {"order": 7}}'
    genuine = signed_webhook(body, SECRET) | {"content-type": "application/json"}
    late = signed_webhook(body, SECRET, at=datetime.now(UTC) - timedelta(minutes=10))
    for sent, headers in (
        (body, genuine),
        (body, genuine),
        (body.replace(b"7", b"8"), genuine),
        (body, late),
    ):
        answer = client.post("/hooks", data=sent, headers=headers)
        print(answer.status_code, answer.get_json())


if __name__ == "__main__":
    main()
