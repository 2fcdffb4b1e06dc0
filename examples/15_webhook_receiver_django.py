"""A Django view that receives webhooks: two lines check that one is genuine and fresh.

Needs: pip install offpath django
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import django
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.test import Client
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from offpath.events import BadSignature, Verifier, new_secret
from offpath.testing import signed_webhook

SECRET = new_secret()  # the sender's: offpath endpoints add ... shows it once

verifier = Verifier(SECRET)
seen: set[str] = set()


@csrf_exempt  # the signature says who it is from
@require_POST
def receive(request: HttpRequest) -> JsonResponse:
    try:
        message_id = verifier.verify(request.body, request.headers)
    except BadSignature as error:
        return JsonResponse({"refused": error.reason}, status=401)
    if message_id in seen:  # the same at every attempt of the sender
        return JsonResponse({"status": "duplicate"})
    seen.add(message_id)
    print("received:", json.loads(request.body)["type"])
    return JsonResponse({"status": "accepted"})


urlpatterns = [path("hooks", receive)]


def main() -> None:
    """Play the sender, through Django's own test client."""
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"], LOGGING_CONFIG=None)
    django.setup()
    client = Client()
    body = b'{"type": "order.paid", "data": {"order": 7}}'
    genuine = signed_webhook(body, SECRET)
    late = signed_webhook(body, SECRET, at=datetime.now(UTC) - timedelta(minutes=10))
    for sent, headers in (
        (body, genuine),
        (body, genuine),
        (body.replace(b"7", b"8"), genuine),
        (body, late),
    ):
        answer = client.post("/hooks", sent, content_type="application/json", headers=headers)
        print(answer.status_code, json.loads(answer.content))


if __name__ == "__main__":
    main()
