"""The task as the worker needs it: the seam between defining work and running it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from offpath.jobs.values.classification import FailureInfo, Verdict
    from offpath.jobs.values.group_values import GroupValues
    from offpath.model.event import JobEvent
    from offpath.model.headers import TraceRelation
    from offpath.model.job import NewJob
    from offpath.model.options import RunOptions
    from offpath.model.retry import BackoffFunction
    from offpath.runtime.codec import Codec
    from offpath.runtime.extension import Running

OnFailure = Callable[[BaseException, "FailureInfo"], "Verdict | Awaitable[Verdict]"]
"""Classifies what a handler raised; see :mod:`offpath.jobs.values.classification`."""
OnEvent = Callable[["JobEvent"], "Awaitable[None] | None"]
"""Is told about each transition, after it was committed."""
OnError = Callable[[BaseException, str], "Awaitable[None] | None"]
"""Is told what the engine swallowed, and in which phase."""
LogContext = Callable[..., Mapping[str, Any]]
"""Called as the handler would be (without the context); gives fields for its log records."""

Around = Callable[["Running"], "AbstractContextManager[Any] | AbstractAsyncContextManager[Any]"]
"""Gives a context for one call of a handler; a sync handler takes plain ones only."""


class BatchSpec(Struct, frozen=True, kw_only=True):
    """The terms on which jobs of a batch task are run together."""

    fn: Callable[..., Any]
    """The handler: takes the inputs as a list, returns one output for each, in their order."""
    size: int
    """The most jobs of one call."""
    max_wait: float
    """Seconds for which the first one waits for others."""


class Inputs(Protocol):
    """The input side of a task's signature."""

    def decode(self, text: str, /) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments; raises when the text does not fit."""
        ...


class Results(Protocol):
    """The result side of a task's signature."""

    codec: Codec
    """The codec that turns its values into text."""

    def encode(self, value: Any, /) -> str | None:  # noqa: ANN401 - whatever a handler returns
        """Return the text to store, None for nothing; raises when the value does not fit."""
        ...

    def decode(self, text: str | None, /) -> Any:  # noqa: ANN401 - whatever a handler returned
        """Return the value of a stored text; raises when it does not fit."""
        ...


class Runnable(Protocol):
    """A registered task."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...

    @property
    def fn(self) -> Callable[..., Any]:
        """The handler."""
        ...

    @property
    def is_async(self) -> bool:
        """True if the handler is a coroutine function; others run in threads."""
        ...

    @property
    def takes_context(self) -> bool:
        """True if the handler's first argument is the context."""
        ...

    @property
    def batch(self) -> BatchSpec | None:
        """The terms on which its jobs are run together; None: each for itself."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The reader of its input."""
        ...

    @property
    def results(self) -> Results:
        """The writer of its result."""
        ...

    @property
    def group_values(self) -> GroupValues:
        """The form of the values of its group."""
        ...

    @property
    def strict(self) -> bool:
        """True if a plan that its handler makes must be returned."""
        ...

    @property
    def concurrency(self) -> int | None:
        """The number of its jobs that one worker runs at once; None: as many as there are slots."""
        ...

    @property
    def own_options(self) -> RunOptions:
        """The options of a job of it that has none of its own."""
        ...

    @property
    def template(self) -> NewJob:
        """A job of it without an input, for which the call says nothing."""
        ...

    @property
    def backoff(self) -> BackoffFunction | None:
        """Its custom backoff function."""
        ...

    @property
    def on_failure(self) -> OnFailure | None:
        """Its own classifier."""
        ...

    @property
    def on_event(self) -> OnEvent | None:
        """Its own event hook."""
        ...

    @property
    def around(self) -> Sequence[Around]:
        """The contexts of each call of its handler, outermost first."""
        ...

    @property
    def trace(self) -> TraceRelation | None:
        """The relation of its attempts to the trace of their enqueue, for what traces them."""
        ...

    @property
    def log_context(self) -> LogContext | None:
        """Its own fields for log records."""
        ...
