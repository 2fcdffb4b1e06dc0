"""The values that commands return: the frame prints them, for people or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from offpath.model.tally import Verdict

DONE, FAILED, USAGE, NOT_FOUND, UNREACHABLE = range(5)
"""Exit codes."""
DEGRADED = 3
"""The exit code of a run in which some parts failed."""

EXITS = {
    Verdict.CLEAN: DONE,
    Verdict.EMPTY: DONE,
    Verdict.DEGRADED: DEGRADED,
    Verdict.FAILED: FAILED,
}
"""The exit codes of a run or a pass."""

Cell = str | int | float | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their headings; without rows ``empty``, or nothing."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = ""
    brief: bool = False
    """True if a command shows each row whole, by the beginning of its id, which stands first."""
    spare: Sequence[str] = ()
    """Columns of a brief that are left out for want of room where all rows have the same."""
    single: bool = False
    """True if rows are made one at a time: short beginnings tell their ids apart."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A name and its value on each line; names end at one column, ``width`` or more wide."""

    values: Mapping[str, Cell]
    width: int = 0


@dataclass(frozen=True, slots=True)
class Quote:
    """Foreign text of several lines, indented under a heading of ours."""

    heading: str
    text: str


Part = str | Table | Fields | Quote
"""A piece of what people see; a string is one line."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A document for programs, and what people see instead."""

    document: Any
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()
    """Lines for people on standard error."""
    exit: int = DONE


@dataclass(frozen=True, slots=True)
class Said:
    """A document for programs, a sentence for people."""

    document: Any
    text: str
    notes: Sequence[str] = ()
    exit: int = DONE

    @property
    def parts(self) -> Sequence[Part]:
        """The sentence."""
        return (self.text,)


@dataclass(frozen=True, slots=True)
class Listing:
    """A list, or one page of a list."""

    items: Sequence[Any]
    """Documents."""
    table: Table
    next: str | int | UnsetType | None = UNSET
    """The place where the next page begins; None at the end, unset where there are no pages."""
    option: str = "--after"
    """The option that takes ``next``."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the document beside the items."""
    said: Sequence[str] = ()
    """Lines for people about the page, on standard error."""
    exit: int = DONE

    @property
    def document(self) -> dict[str, Any]:
        """The items, and where the next page begins."""
        page = {} if self.next is UNSET else {"next": self.next}
        return {**self.about, "items": self.items, **page}

    @property
    def parts(self) -> Sequence[Part]:
        """The table."""
        return (self.table,)

    @property
    def notes(self) -> Sequence[str]:
        """The lines about the page, and the way to the next one."""
        if self.next is UNSET or self.next is None:
            return self.said
        return (*self.said, f"more: add {self.option} {self.next}")


def next_of(found: Sequence[T], limit: int, place: Callable[[T], str | int]) -> str | int | None:
    """The place of a full page's last row, after which the next page begins."""
    return place(found[-1]) if len(found) >= limit else None


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows that a command changed, and those that it left alone."""

    rows: Mapping[str, str]
    """The outcome of each changed row, by its id."""
    asked: Sequence[str]
    """The ids that were given."""
    verb: str
    why: str
    """The reason why a row may have been left alone."""
    items: Sequence[Any] | None = None
    """Documents of the changed rows; their ids where None."""
    notes: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the document."""
    whys: Mapping[str, str] = field(default_factory=dict)
    """The reason of a row that is known to be it, by its id; ``why`` is that of others."""

    @property
    def left(self) -> list[str]:
        """The ids that were given, and not changed."""
        return [one for one in self.asked if one not in self.rows]

    @property
    def document(self) -> dict[str, Any]:
        """Changed rows, and the ids of unchanged ones."""
        items = list(self.rows) if self.items is None else self.items
        return {"changed": items, "unchanged": self.left, **self.more}

    @property
    def parts(self) -> Sequence[Part]:
        """A line for each row, and how many were changed."""
        changed = [f"{one}  {what}" for one, what in self.rows.items()]
        left = [f"{one}  left alone: {self.whys.get(one, self.why)}" for one in self.left]
        return [*changed, *left, f"{len(self.rows)} {self.verb}"]

    @property
    def exit(self) -> int:
        """Not found, when ids were given and none of them was changed."""
        return NOT_FOUND if self.asked and not self.rows else DONE


@dataclass(frozen=True, slots=True)
class Failed:
    """An error: one line on standard error for people, ``{"ok": false, "error": …}`` as JSON."""

    code: str
    message: str
    exit: int = FAILED
    word: str = "error"
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the document."""
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The error as JSON."""
        return {
            "ok": False,
            "error": {
                "code": self.code,
                "message": self.message,
                "see": f"docs/errors.md#{self.code}",
            },
            **self.more,
        }


Value = Shown | Said | Listing | Changed | Failed
