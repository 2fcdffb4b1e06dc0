"""Steps: the pieces in which an action is done, each one transition of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from offpath.app import App
from offpath.model.action import ActionRecord

CHUNK: Final = 500
"""Rows of one step."""


class ActionWork(Struct, frozen=True, kw_only=True):
    """An action that is carried out: its record, and what it was asked, read."""

    record: ActionRecord
    target: Any
    options: Any


class Stepped(Struct, frozen=True, kw_only=True):
    """The outcome of one step."""

    changed: int = 0
    left: Mapping[str, int] = {}
    """The rows that were left alone, by the reason."""
    cursor: str | None = None
    more: bool = False
    """True if there are more rows to look at, behind the cursor."""
    elsewhere: bool = False
    """True if only a process with other code can do it: nothing was done here."""


Step = Callable[[App, ActionWork], Awaitable[Stepped]]

DONE: Final = Stepped(changed=1)
ELSEWHERE: Final = Stepped(more=True, elsewhere=True)
"""The outcome of a step for which the code is not here."""


def once(*, changed: bool, why: str) -> Stepped:
    """The outcome of a step on one thing, which is the only one."""
    return DONE if changed else Stepped(left={why: 1})


def rows(*, changed: int, left: Counter[str], cursor: str | None, more: bool) -> Stepped:
    """The outcome of a step on rows."""
    return Stepped(changed=changed, left=dict(left), cursor=cursor, more=more)
