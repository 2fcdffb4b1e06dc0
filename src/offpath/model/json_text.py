"""JSON that comes from elsewhere: a body, a file, an argument. Read with one refusal for all of it.

A document may be no JSON, no UTF-8 (a byte 0xff within a text), nested without end, or of another
form than is asked for: the decoder has an exception of its own for each, and none is a bug of ours.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

from offpath.errors import InvalidArgument

T = TypeVar("T")


@overload
def decode_json(document: bytes | str, what: str) -> Any: ...  # noqa: ANN401 - any JSON
@overload
def decode_json(document: bytes | str, what: str, *, type: type[T]) -> T: ...
def decode_json(document: bytes | str, what: str, *, type: Any = Any) -> Any:  # noqa: A002 - as msgspec names it
    """The value of a document.

    Raises ``InvalidArgument``: "``what`` is not JSON", or is not a JSON object where ``type`` is
    a dict.
    """
    try:
        return msgspec.json.decode(document, type=type)
    except (ValueError, RecursionError) as error:
        wanted = "JSON" if type is Any else "a JSON object"
        raise InvalidArgument(f"{what} is not {wanted}: {_why(error)}") from None


def _why(error: Exception) -> str:
    """The reason without the document: what is refused may be a secret."""
    if isinstance(error, UnicodeDecodeError):
        return f"it has the byte 0x{error.object[error.start]:02x}, which is not UTF-8"
    if isinstance(error, UnicodeError):
        return "it is not a valid text"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
