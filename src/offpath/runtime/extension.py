"""Extensions: code of others that runs around a handler, a step, a delivery, and hears of ends.

An extension observes. Its faults are reported and cost no job, and it cannot change what a handler
made: for that there is ``around=``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model.headers import decoded_headers
from offpath.model.json_text import decode_json
from offpath.model.options import decode_run
from offpath.model.redact import SECRET_NAMES, redact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offpath.model.event import JobEvent
    from offpath.model.headers import TraceRelation
    from offpath.model.job import LeasedJob

Verdict = Literal[
    "succeeded", "retry", "dead", "snoozed", "waiting", "cancelled", "released", "lost"
]
"""The end of an attempt. ``released``: a stopping worker gave it back; ``lost``: it was somebody
else's by then."""


class RunningJob:
    """A job whose handler runs. The handler has its input, decoded; here it is only to be shown."""

    __slots__ = ("_job",)

    def __init__(self, job: LeasedJob) -> None:
        self._job = job

    def __repr__(self) -> str:
        """Show task and id."""
        return f"<RunningJob task={self._job.task!r} id={self._job.id!r}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._job.queue

    @property
    def group_id(self) -> str:
        """The group it is counted in."""
        return self._job.group_id

    @property
    def parent(self) -> str | None:
        """Id of the job whose handler enqueued it."""
        return self._job.parent

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._job.attempt

    @property
    def deliveries(self) -> int:
        """The times it was handed to a worker, this one included."""
        return self._job.deliveries

    @property
    def size(self) -> int:
        """The bytes of its arguments, as they are stored."""
        return len(self._job.input.encode())

    def shown_arguments(self, secrets: Iterable[str] = ()) -> Any:  # noqa: ANN401 - any JSON
        """Its arguments as people may see them: fields of a secret name are hidden.

        ``secrets`` are further names. What another codec than JSON wrote is not shown: None.
        """
        try:
            given = decode_json(self._job.input, "its arguments")
        except InvalidArgument:
            return None
        return redact(given, {*SECRET_NAMES, *secrets})

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers."""
        return decoded_headers(self._job.headers)

    @property
    def enqueued_at(self) -> datetime:
        """The time at which it was enqueued, by the store's clock."""
        return self._job.enqueued_at

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence of a schedule that it was made for."""
        return decode_run(self._job.options).scheduled_for


class Running:
    """One call of a handler: for one job, or for those of a batch.

    ``id``, ``queue``, ``attempt`` and ``deliveries`` are those of the first job, for a batch too.
    """

    __slots__ = ("_state", "jobs", "task", "trace")

    def __init__(
        self, task: str, jobs: Sequence[LeasedJob], trace: TraceRelation | None = None
    ) -> None:
        self.task = task
        """The task's name."""
        self.trace = trace
        """The ``trace=`` of the task: how its attempts belong to the trace of their enqueue."""
        self.jobs = tuple(RunningJob(job) for job in jobs)
        """The jobs of the call."""
        self._state: dict[Any, Any] | None = None

    def __repr__(self) -> str:
        """Show the task and the jobs."""
        return f"<Running task={self.task!r} jobs={[one.id for one in self.jobs]}>"

    @property
    def state(self) -> dict[Any, Any]:
        """A dictionary for what an extension keeps from its ``running`` to its ``ended``.

        All extensions share it, so a key is the extension itself, or a name of its own.
        """
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def id(self) -> str:
        """The id of the first job."""
        return self.jobs[0].id

    @property
    def queue(self) -> str:
        """The queue of the first job."""
        return self.jobs[0].queue

    @property
    def attempt(self) -> int:
        """The number of the first job's attempt, from 1."""
        return self.jobs[0].attempt

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the first job."""
        return self.jobs[0].headers

    @property
    def deliveries(self) -> int:
        """The times that the first job was handed to a worker."""
        return self.jobs[0].deliveries


class Ended(Struct, frozen=True, kw_only=True):
    """The end of one job's attempt, as it is about to be recorded."""

    job: RunningJob
    verdict: Verdict
    error: BaseException | None = None
    """The exception that the handler raised; None when it raised none, or still runs."""
    duration: float
    """Seconds from the handler's call to its end."""
    retry_in: float | None = None
    """Seconds until it is due again, for ``retry`` and ``snoozed``."""


class Outgoing:
    """A message on its way out."""

    __slots__ = ("attempt", "headers", "id", "key", "topic")

    def __init__(
        self, message: str, topic: str, key: str | None, attempt: int, headers: dict[str, str]
    ) -> None:
        self.id = message
        """The message's id: the same at every attempt."""
        self.topic = topic
        self.key = key
        self.attempt = attempt
        """1 for the first delivery."""
        self.headers = headers
        """The headers that go with it; may be added to while the delivery begins."""

    def __repr__(self) -> str:
        """Show topic and id."""
        return f"<Outgoing {self.topic} {self.id} attempt={self.attempt}>"


class Delivering(Struct, frozen=True, kw_only=True):
    """One call of a dispatcher, or one post to an endpoint."""

    kind: Literal["dispatcher", "webhook"]
    to: str
    """The stream of the outbox, or the endpoint's name."""
    messages: tuple[Outgoing, ...]
    """One message, or those that a dispatcher of many is handed at once."""
    state: dict[Any, Any]
    """A dictionary for what an extension keeps, as that of :class:`Running`."""


class NewEntry:
    """A job, a message or an event of the log that is about to be written."""

    __slots__ = ("_text", "group_id", "headers", "id", "kind", "name", "place")

    def __init__(  # noqa: PLR0917 - a row each
        self,
        kind: Literal["job", "message", "event"],
        id: str,  # noqa: A002 - the field's word
        name: str,
        place: str,
        headers: dict[str, str],
        text: str,
        group_id: str | None = None,
    ) -> None:
        self.kind = kind
        self.id = id
        self.name = name
        """The task of a job, the topic of a message, the type of an event."""
        self.place = place
        """The queue of a job, the stream of a message (its source, in the inbox) or an event."""
        self.headers = headers
        """Its headers; may be added to. What it was given itself is not replaced."""
        self.group_id = group_id
        """The group that a job joins; None where it begins its own."""
        self._text = text

    def __repr__(self) -> str:
        """Show kind, name and id; never the payload."""
        return f"<NewEntry {self.kind} {self.name} {self.id}>"

    @property
    def size(self) -> int:
        """The bytes of its input or payload, as it is stored."""
        return len(self._text.encode())


class Applying(Struct, frozen=True, kw_only=True):
    """One call of the handler of an inbox message."""

    id: str
    """The message's id."""
    source: str
    key: str | None
    attempt: int
    headers: Mapping[str, str]
    state: dict[Any, Any]
    """A dictionary for what an extension keeps, as that of :class:`Running`."""


class Committing(Struct, frozen=True, kw_only=True):
    """One commit of new jobs, messages and events of the log."""

    entries: tuple[NewEntry, ...]
    cause: Running | Applying | None = None
    """The call of the handler whose end writes them; None where code writes them that runs now."""
    within: bool = False
    """True in a transaction of the caller's, which may still be rolled back."""
    state: dict[Any, Any]
    """A dictionary for what an extension keeps, as that of :class:`Running`."""


class Routing(Struct, frozen=True, kw_only=True):
    """One delivery of an event of the log along a route."""

    router: str
    route: str
    event: str
    """The event's id."""
    type: str
    stream: str
    attempt: int
    headers: Mapping[str, str]
    state: dict[Any, Any]
    """A dictionary for what an extension keeps, as that of :class:`Running`."""


_NOTHING: AbstractContextManager[None] = nullcontext()


class Extension:
    """Code around handlers, steps and deliveries: a subclass overrides what it wants.

    The methods are called in the order of the extensions, and what they return is left in reverse.
    A fault in one is swallowed, counted (``offpath_swallowed_errors_total{phase="extension"}``),
    logged once a minute and told to ``on_error``; the job goes on without it.
    """

    def active(self) -> bool:
        """True if there is something for it to do.

        Asked when an app is opened. What answers False is left out until the next time: it costs
        nothing, and none of its other methods is called.
        """
        return True

    def opened(self, app: Any) -> None:  # noqa: ANN401 - an offpath.App, which stands above
        """Called when the app was opened."""

    def closed(self, app: Any) -> None:  # noqa: ANN401 - as above
        """Called when the app's work has ended, before its store is closed."""

    def sending(self, new: Committing, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for a commit of new jobs, messages and log events; may add to their headers.

        Entered in the caller's task or thread, and left when they are written. Of what a handler
        leaves to its end (``new.cause``) it is entered and left before that is recorded.
        """
        return _NOTHING

    def running(self, run: Running, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for a handler, entered where it runs: its task, or its thread.

        Entered after the input was decoded and left before the result is encoded. It sees what the
        handler raises (a cancellation too) and cannot hold it back.
        """
        return _NOTHING

    def ended(self, run: Running, end: Ended, /) -> None:
        """Called in the loop's thread when it is decided how an attempt ended, for each job."""

    def stepping(self, run: Running, name: str, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for the function of a ``ctx.step``, entered where that runs; none for one
        that is recorded already.
        """
        return _NOTHING

    def delivering(self, out: Delivering, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for a dispatcher's call or a webhook's post; may add to the headers."""
        return _NOTHING

    def applying(self, message: Applying, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for the handler of an inbox message, entered where that runs."""
        return _NOTHING

    def routing(self, event: Routing, /) -> AbstractContextManager[Any]:  # noqa: ARG002 - overridden
        """A context for the delivery of an event along a route; none for one that is passed."""
        return _NOTHING

    def moved(self, event: JobEvent, /) -> None:
        """Called after the commit of each transition of a job, as ``on_event``."""
