"""A schedule of another program, in words of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class ScheduleEntry(Struct, frozen=True, kw_only=True):
    """A schedule to be made here, or the reason why it cannot be."""

    name: str
    task: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    """The keywords of ``task.options(...)``."""
    terms: Mapping[str, Any] = {}
    """The keywords of ``app.schedule``."""
    refused: str = ""
    """The reason why there is no such schedule here."""
