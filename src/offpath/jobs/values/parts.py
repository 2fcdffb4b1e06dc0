"""Parts: the jobs that another one has waited for, with what they gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from offpath.model.job import Failure, JobState

if TYPE_CHECKING:
    from offpath.jobs.values.handle import Handle

S_co = TypeVar("S_co", covariant=True)


class Readable(Protocol):
    """The way back from a stored result."""

    def decode(self, text: str | None, /) -> Any:  # noqa: ANN401 - whatever the handler returned
        """Return the value; raises when the text does not fit."""
        ...


class Part(Protocol[S_co]):
    """A task, as far as the results of its jobs are read."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...

    @property
    def results(self) -> Readable:
        """The result side of its signature."""
        ...

    def handle(self, job_id: str, /) -> Handle[S_co, Any]:
        """The handle of one of its jobs."""
        ...


class PartOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a job that another one has waited for."""

    id: str
    task: str
    state: JobState
    """The state of it: a gate that waits for some of its jobs opens while others run."""
    value: Any = None
    """The value of its handler, where it has succeeded and this worker knows its task."""
    failure: Failure | None = None
    """Its last failure, if any attempt failed."""
