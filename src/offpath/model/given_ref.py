"""Refs as callers give them: checked, and read wherever an id may stand."""

from __future__ import annotations

from typing import Final

from offpath.model import checks
from offpath.model.ref import MARK, ref_id

LONGEST: Final = checks.MAX_NAME - len(MARK)
"""Characters of a ref at most: its tag is a name."""


def checked_ref(value: object) -> str:
    """A ref as it was given, once it is known to be one. Raises ``InvalidArgument``."""
    return checks.text(value, "ref", longest=LONGEST)


def id_of(value: str) -> str:
    """The id that ``ref:…`` stands for; anything else as it is. Raises ``InvalidArgument``."""
    return ref_id(checked_ref(value.removeprefix(MARK))) if value.startswith(MARK) else value
