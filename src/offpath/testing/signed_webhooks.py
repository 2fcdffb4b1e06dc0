"""Signed deliveries, for the tests of those who receive webhooks."""

from __future__ import annotations

from datetime import UTC, datetime

from offpath.events.webhook.signature import signed_headers, signer
from offpath.runtime.ids import new_id


def signed_webhook(
    body: bytes,
    *secrets: str,
    id: str | None = None,  # noqa: A002 - the header's word
    at: datetime | None = None,
) -> dict[str, str]:
    """The headers with which ``body`` is posted: ``webhook-id``, ``-timestamp`` and ``-signature``.

    ``secrets`` sign (``whsec_…`` or ``whsk_…``), each once, as while they are rotated. ``id`` is
    new, and ``at`` is now, unless given. Raises ``InvalidArgument`` for what is not a secret.
    """
    signers = [signer(secret) for secret in secrets]
    return signed_headers(id or new_id(), at or datetime.now(UTC), body, signers)
