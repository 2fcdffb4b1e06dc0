"""Filling a document from a record: fields of one name are one value."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

Document = TypeVar("Document", bound=Struct)


def filled(kind: type[Document], record: object, /, **others: object) -> Document:
    """A document with the record's fields of the same names, and these others."""
    own = {
        name: getattr(record, name)
        for name in kind.__struct_fields__
        if name not in others and hasattr(record, name)
    }
    return kind(**own, **others)
