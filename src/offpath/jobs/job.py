"""An unsent job: a value with an id, so that it can be referred to before it is enqueued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.model.job import NewJob

S_co = TypeVar("S_co", covariant=True)
"""What the job's own result is."""
G_co = TypeVar("G_co", covariant=True)
"""What the job's group gives: the same as the result while the handler returns a plain value."""


class Job(Generic[S_co, G_co]):
    """A job as ``task.job(...)`` makes it: checked, encoded, and not sent.

    ``app.enqueue(job)`` sends it. Sending it again is safe: the id makes the repeat harmless, also
    when the first call ended with :class:`offpath.StoreUnavailable` and its outcome is unknown.
    """

    __slots__ = ("_decode", "_new")

    def __init__(self, new: NewJob, decode: Callable[[str | None], Any]) -> None:
        self._new = new
        self._decode = decode

    def __repr__(self) -> str:
        """Show task and id; never the input."""
        return f"<Job {self._new.task} {self._new.id}>"

    @property
    def id(self) -> str:
        """Its id: a time-ordered UUID as text."""
        return self._new.id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._new.task

    @property
    def new(self) -> NewJob:
        """The job as the store takes it."""
        return self._new

    @property
    def decode(self) -> Callable[[str | None], Any]:
        """How to read its result."""
        return self._decode
