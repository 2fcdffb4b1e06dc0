"""The end of a request that is not answered with what it asked for."""

from __future__ import annotations

from collections.abc import Mapping


class Stop(Exception):
    """Ends a request: its status, a stable code, and a sentence for people."""

    def __init__(
        self, status: int, code: str, text: str, *, retryable: bool = False, **headers: str
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.retryable = retryable
        self.headers: Mapping[str, str] = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


def unknown_page() -> Stop:
    """The answer to a path that leads nowhere."""
    return Stop(404, "NOT_FOUND", "There is no such page.")
