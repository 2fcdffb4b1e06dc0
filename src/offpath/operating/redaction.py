"""Redaction of what users and their handlers wrote, before anybody sees it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model.json_text import decode_json
from offpath.model.redact import SECRET_NAMES, redact, redact_text

NOT_SHOWN: Final = "hidden"
"""The text in the place of what this reader may not see."""


class Redaction(Struct, frozen=True, kw_only=True):
    """The rules for what a reader sees of arguments, results and error texts."""

    names: frozenset[str] = SECRET_NAMES
    """Field names that are secrets."""
    payloads: bool = True
    """False: arguments, results and tracebacks are not shown at all."""

    def payload(self, text: str | None) -> Any:  # noqa: ANN401 - any JSON
        """The value of a stored text, secrets hidden."""
        value = decoded(text)
        if value is None or self.payloads:
            return redact(value, self.names)
        return NOT_SHOWN

    def traceback(self, text: str | None) -> str | None:
        """A traceback: its lines may hold any value."""
        if not text:
            return None
        return redact_text(text) if self.payloads else NOT_SHOWN


PLAIN: Final = Redaction()
"""The redaction of the command line: whoever runs it can read the database."""


def decoded(text: str | None) -> Any:  # noqa: ANN401 - any JSON
    """The value of a JSON text; another codec's text as it is."""
    if text is None:
        return None
    try:
        return decode_json(text, "the text")
    except InvalidArgument:
        return text
