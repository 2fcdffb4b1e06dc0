"""An unsent job: a value with an id, so that it can be referred to before it is enqueued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from offpath.model.unsent import Unsent, unsent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Never

    from offpath.jobs.values.names import Name
    from offpath.model.job import NewJob
    from offpath.model.options import OptionLevel

S_co = TypeVar("S_co", covariant=True)
"""The type of the job's own result."""
G_co = TypeVar("G_co", covariant=True)
"""The type of the group's value: the same as the result while the handler returns a plain value."""


class Unknowable:
    """Nothing is of this type: it lets type checkers tell ``Any`` from None."""


class Member(Protocol[G_co]):
    """The items that can be queued in a plan, by what they may give to the group's value.

    Only for type checkers: jobs, plans and gates that give nothing (None) are members of ``Never``,
    which vanishes from the union of all.
    """

    def _gives(self) -> G_co: ...


class Job(Generic[S_co, G_co]):
    """A job as ``task.job(...)`` makes it: checked, encoded, and not sent.

    ``app.enqueue(job)`` sends it. Sending it again is safe: the id makes the repeat harmless, also
    when the first call ended with :class:`offpath.StoreUnavailable` and its outcome is unknown.
    Inside a handler, ``ctx.queue(job)`` and ``ctx.enqueue(job)`` join it to the end of the attempt;
    its id then is the same whenever the handler runs again and makes the same job. Sent by
    ``app.enqueue(job)`` it is another job in each run: it gets a new id then, if the store has one
    of its id from an earlier run.
    """

    __slots__ = ("_unsent",)

    def __init__(
        self,
        new: NewJob,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any] | None = None,
        again: Callable[[NewJob, OptionLevel], NewJob] | None = None,
        name: Name | None = None,
    ) -> None:
        self._unsent = Unsent(new, decode, decode_group or decode, again, name)

    def __repr__(self) -> str:
        """Show task and id; never the input."""
        return f"<Job {self.task} {self.id}>"

    @property
    def id(self) -> str:
        """Its id: a time-ordered UUID as text."""
        return self._unsent.new.id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._unsent.new.task

    if TYPE_CHECKING:

        @overload
        def _gives(self: Job[Any, Unknowable]) -> Any: ...  # noqa: ANN401 - see Member
        @overload
        def _gives(self: Job[Any, None]) -> Never: ...
        @overload
        def _gives(self) -> G_co: ...
        def _gives(self) -> Any: ...


class BeginsInline(Protocol):
    """A task, as far as it says where its jobs begin."""

    inline: bool
    """True if a job begins at once in the process that enqueues it, where nothing is in the way."""


def begins_here(jobs: Sequence[object], within: object, tasks: Mapping[str, BeginsInline]) -> bool:
    """True if this is one job whose task has its jobs begin inline, and nothing is in the way."""
    if within is not None or len(jobs) != 1 or not isinstance(job := jobs[0], Job):
        return False
    task = tasks.get(job.task)
    return task is not None and task.inline and in_the_way(unsent(job).new) is None


def in_the_way(new: NewJob) -> str | None:
    """The reason why a job cannot begin at once; None if it can."""
    if new.run_at is not None:
        return "run_at says when it is due"
    if new.delay > 0:
        return f"delay makes it due in {new.delay:g} s"
    if new.gate is not None:
        return "it waits at a gate"
    if new.limit is not None:
        return f"it counts under the limit {new.limit.key!r}, which says when it may begin"
    return None
