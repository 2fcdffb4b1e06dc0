"""Unsent jobs: the engine's side of what ``task.job(...)`` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from offpath.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.model.job import NewJob
    from offpath.model.options import OptionLevel


class RunName(Protocol):
    """An id that is the same at every run of a handler."""

    @property
    def again(self) -> bool:
        """True if an earlier run of the handler may have sent a job of this id."""
        ...


class Unsent:
    """The engine's side of a job that was made: what the store takes, and how answers are read."""

    __slots__ = ("_again", "_name", "decode", "decode_group", "new")

    def __init__(
        self,
        new: NewJob,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any],
        again: Callable[[NewJob, OptionLevel], NewJob] | None,
        name: RunName | None,
    ) -> None:
        self.new = new
        """The job as the store takes it."""
        self.decode = decode
        """The reader of its result."""
        self.decode_group = decode_group
        """The reader of the value of its group, where it is the group's first job."""
        self._again = again
        self._name = name

    @property
    def id(self) -> str:
        """Its id."""
        return self.new.id

    @property
    def named(self) -> bool:
        """True if its id is one that a handler gives at every run."""
        return self._name is not None

    @property
    def doubtful(self) -> bool:
        """True if a job of its id may be stored that an earlier run of the handler has sent."""
        return self._name is not None and self._name.again

    def sent_as(self, job_id: str) -> None:
        """Fix its id from now on: it is about to be sent."""
        self._name = None
        if job_id != self.new.id:
            self.new = replace(self.new, id=job_id)

    def with_options(self, level: OptionLevel) -> NewJob:
        """The job as the store takes it, with other options over its own."""
        if self._again is None:
            new = self.new
            raise InvalidArgument(
                f"<Job {new.task} {new.id}> was not made by a task: it takes no other options"
            )
        return self._again(self.new, level)


class Made(Protocol):
    """A job as ``task.job(...)`` makes it."""

    _unsent: Unsent


def unsent(job: Made) -> Unsent:
    """The engine's side of a job."""
    return job._unsent  # noqa: SLF001 - the one way to it
