"""An unsent job: a value with an id, so that it can be referred to before it is enqueued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from offpath.model.unsent import Unsent

if TYPE_CHECKING:
    from collections.abc import Callable
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
