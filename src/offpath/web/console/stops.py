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


def inside(path: str) -> str:
    """A path of ours to go to; the first page for anything that leads elsewhere."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if plain and path.isprintable() and path.isascii() else "/"


def sentence(error: Exception) -> str:
    """The text of an error as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def unknown_page() -> Stop:
    """The answer to a path that leads nowhere."""
    return Stop(404, "NOT_FOUND", "There is no such page.")
