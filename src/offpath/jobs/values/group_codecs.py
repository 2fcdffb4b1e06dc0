"""The codecs of a group's value: its text names who wrote it, since its members may differ.

A task without a codec of its own writes by the app's codec, and its text stands as it is. A task
with one signs what it gives to a group: the text begins with the task's name, by which whoever
reads or folds the value finds the codec. A job's own result is never signed: its task reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offpath.errors import GroupValueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpath.runtime.codec import Codec

_SIGN = "!offpath written by "
"""The first words of a signed text. No JSON begins so, and what does is signed by nobody's name."""


class Writes(Protocol):
    """A task, as far as its results are written."""

    @property
    def codec(self) -> Codec:
        """The codec that turns its values into text."""
        ...


class GroupWriter(Protocol):
    """A task that gives values to groups."""

    @property
    def results(self) -> Writes:
        """The form in which its results are written."""
        ...


class GroupCodecs:
    """The codecs of one app: its own, and those of its tasks by their names."""

    __slots__ = ("_tasks", "app")

    def __init__(self, app: Codec, tasks: Mapping[str, GroupWriter]) -> None:
        self.app = app
        """The writer for tasks that have no codec of their own."""
        self._tasks = tasks

    def signed(self, text: str, task: str, codec: Codec) -> str:
        """The text of a value that ``task`` has written by ``codec``, as a group keeps it."""
        if codec is not self.app:
            return f"{_SIGN}{task}\n{text}"
        return f"{_SIGN}\n{text}" if text.startswith(_SIGN) else text

    def of(self, writer: str) -> Codec:
        """The codec that wrote a value. Raises ``GroupValueError`` when it is not known here."""
        if not writer:
            return self.app
        try:
            return self._tasks[writer].results.codec
        except KeyError:
            raise GroupValueError(
                f"task {writer!r} gave this value in a codec of its own, and no task of this app "
                "has that name: import the module that defines it, or give both the app's codec"
            ) from None


def parted(text: str) -> tuple[str, str]:
    """The writer of a group's value (a task's name, or nothing for the app's codec), and the
    value's text.
    """
    if not text.startswith(_SIGN):
        return "", text
    writer, _, plain = text.removeprefix(_SIGN).partition("\n")
    return writer, plain


def unsigned(text: str | None) -> str | None:
    """The text of a group's value, as its writer's codec made it."""
    return None if text is None else parted(text)[1]
