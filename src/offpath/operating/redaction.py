"""Redaction of what users and their handlers wrote, before anybody sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model.json_text import decode_json
from offpath.model.redact import SECRET_NAMES, redact, redact_text

NOT_SHOWN: Final = "hidden"
"""The text in the place of what this reader may not see."""


PayloadShape = Callable[[str, Any], Any]
"""The view of the arguments of a task, by its name: anything that is JSON."""


class Redaction(Struct, frozen=True, kw_only=True):
    """The rules for what a reader sees of arguments, results and error texts."""

    names: frozenset[str] = SECRET_NAMES
    """Field names that are secrets."""
    payloads: bool = True
    """False: arguments, results and tracebacks are not shown at all."""

    shape: PayloadShape | None = None
    """The app's own view of arguments; None shows them as they were given."""

    def arguments(self, task: str, text: str | None) -> Any:  # noqa: ANN401 - any JSON
        """The arguments of a job, as its app wants them seen.

        Secrets are hidden before and after: the view may put any field into a text of its own.
        """
        value = self.payload(text)
        if self.shape is None or not self.payloads or value is None:
            return value
        try:
            seen = msgspec.to_builtins(self.shape(task, value))
        except Exception as error:  # noqa: BLE001 - it is the app's own, and only one view
            return {"format_payload": f"raised {type(error).__name__}", "arguments": value}
        return redact(seen, self.names)

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
