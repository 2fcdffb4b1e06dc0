"""The id by which a request is found again: in logs, in answers, on the messages that it caused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

HEADER: Final = "x-request-id"
HEADERS: Final = ("traceparent", HEADER)
"""The place where a caller may have named it."""
CARRIED: Final = "correlation_id"
"""The header of messages that carries it on."""

# https://www.w3.org/TR/trace-context/#traceparent-header
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}.*"
)
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,128}")


def correlation_id(headers: Mapping[str, str], new_id: Callable[[], str]) -> str:
    """The trace id of ``traceparent``, otherwise a plain ``x-request-id``, otherwise a new one."""
    if (trace := _TRACEPARENT.fullmatch(headers.get("traceparent", ""))) is not None:
        return trace[1]
    given = headers.get(HEADER, "")
    return given if _GIVEN.fullmatch(given) else new_id()
