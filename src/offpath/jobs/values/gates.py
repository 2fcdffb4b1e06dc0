"""Gates: jobs that are held until others have ended. ``offpath.gate`` makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from msgspec.structs import replace

from offpath.errors import GateError, InvalidArgument
from offpath.jobs.values import names
from offpath.jobs.values.job import G_co, Job, Member, Unknowable
from offpath.model import checks
from offpath.model.gate import Counting, NewGate, When
from offpath.model.unsent import unsent
from offpath.runtime.ids import new_id, parse_id

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Never

    from offpath.jobs.values.handle import Handle
    from offpath.model.job import NewJob

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

all_succeeded = When()
"""Every watched job has succeeded. As soon as one of them is dead or cancelled, the jobs behind it
are dead with reason ``unsatisfiable``."""
all_settled = When(of=Counting.SETTLED)
"""Every watched job has ended, whichever way."""
any_succeeded = When(need=1)
"""One of the watched jobs has succeeded."""

descendants_succeeded = When(descendants=True)
"""Every watched job has succeeded, and so has all that these led to: the jobs of their plans and of
``ctx.enqueue``, the jobs of those, and so on."""
descendants_settled = When(of=Counting.SETTLED, descendants=True)
"""Every watched job has ended, and so has all that these led to, whichever way."""


def at_least(n: int, of: Literal["succeeded", "settled"] | Counting = "succeeded") -> When:
    """``n`` of the watched jobs have succeeded, or (``of="settled"``) have ended whichever way.

    0 holds at once. Raises ``GateError``.
    """
    with _refused():
        need = checks.integer(n, "at_least", least=0, most=checks.MAX_PRIORITY)
    try:
        return When(need=need, of=Counting(of))
    except ValueError as error:
        raise GateError(f"at_least: of must be one of {', '.join(Counting)}, not {of!r}") from error


class Gate(Generic[G_co]):
    """Jobs that wait for others, as :func:`offpath.gate` makes it; not sent.

    ``ctx.queue(gate)`` joins it to the end of an attempt, ``app.enqueue(gate)`` sends it.
    """

    __slots__ = ("_jobs", "_new")

    def __init__(self, new: NewGate, jobs: tuple[Job[Any, Any], ...]) -> None:
        self._new = new
        self._jobs = jobs

    def __repr__(self) -> str:
        """Show how many jobs it holds, and how many it waits for."""
        return f"<Gate {self.id} on={len(self._new.on)} jobs={len(self._jobs)}>"

    @property
    def id(self) -> str:
        """Its id."""
        return self._new.id

    @property
    def jobs(self) -> tuple[Job[Any, Any], ...]:
        """The jobs that it holds."""
        return self._jobs

    @property
    def on(self) -> tuple[str, ...]:
        """Ids of the watched jobs."""
        return self._new.on

    @property
    def new(self) -> NewGate | None:
        """The gate as the store takes it; None when it need not be made, since it holds at once."""
        return self._new if self._new.need else None

    def held(self, job: NewJob) -> NewJob:
        """One of its jobs, held by it."""
        return replace(job, gate=self.id if self._new.need else None, dependents=self._new.on)

    def follow(self, others: Mapping[str, str]) -> None:
        """Some jobs got other ids (former to new): one that has to do with them is another gate."""
        held = {job.id for job in self._jobs}
        if others.keys().isdisjoint(self._new.on) and held.isdisjoint(others.values()):
            return
        on = tuple(others.get(one, one) for one in self._new.on)
        self._new = replace(self._new, id=new_id(), on=on)

    def alone(self) -> list[NewJob]:
        """Its jobs outside of a plan: the first one's group has them all."""
        first, *others = (self.held(unsent(job).new) for job in self._jobs)
        return [first, *(replace(one, group_id=first.id) for one in others)]

    def decode_group(self, text: str | None) -> Any:  # noqa: ANN401 - whatever the jobs give
        """The value of the group that its jobs make, read as the first of them that can."""
        return first_that_reads([unsent(job).decode_group for job in self._jobs], text)

    if TYPE_CHECKING:

        @overload
        def _gives(self: Gate[Unknowable]) -> Any: ...  # noqa: ANN401 - see Member
        @overload
        def _gives(self: Gate[None]) -> Never: ...
        @overload
        def _gives(self) -> G_co: ...
        def _gives(self) -> Any: ...


# Jobs of which nothing is known come first: else they would be taken for jobs that give nothing.
@overload
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: Iterable[Unknowable],
    *,
    when: When = ...,
    timeout: float | timedelta | None = None,
) -> Gate[Any]: ...
@overload
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: Iterable[Member[Never]],
    *,
    when: When = ...,
    timeout: float | timedelta | None = None,
) -> Gate[None]: ...
# A tuple keeps the types of its items apart, where a list has them joined.
@overload
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: tuple[Member[A], Member[B]],
    *,
    when: When = ...,
    timeout: float | timedelta | None = None,
) -> Gate[A | B]: ...
@overload
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: tuple[Member[A], Member[B], Member[C]],
    *,
    when: When = ...,
    timeout: float | timedelta | None = None,
) -> Gate[A | B | C]: ...
@overload
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: Iterable[Member[G_co]],
    *,
    when: When = ...,
    timeout: float | timedelta | None = None,
) -> Gate[G_co]: ...
def gate(
    on: Iterable[Job[Any, Any] | Handle[Any, Any] | str],
    queue: Iterable[Any],
    *,
    when: When = all_succeeded,
    timeout: float | timedelta | None = None,
) -> Gate[Any]:
    """Hold the jobs of ``queue`` until a condition over the jobs of ``on`` holds.

    ``on`` takes jobs, handles and ids, also of jobs that are enqueued in the same commit. While it
    waits it costs nothing: the transaction that ends a watched job counts it, and the one that
    makes the condition true makes the held jobs due. ``when`` is ``all_succeeded``,
    ``all_settled``, ``any_succeeded``, ``at_least(n)``, or, to wait for what the jobs of ``on``
    lead to as well, ``descendants_succeeded`` or ``descendants_settled``. As soon as it cannot hold
    any more, the held jobs are dead with reason ``unsatisfiable``; after ``timeout`` seconds with
    reason ``gate_timeout``. A held job's own delay and deadline count from its release.

    With a timeout, ``on`` may have ids that nobody has enqueued (yet); without one the commit
    raises ``GateError`` for them. Raises ``GateError`` for a condition that can never hold and for
    what is not a gate at all. A handler that lets a ``GateError`` pass ends its job as dead at once
    (``invalid_plan``): a retry would make the same gate.
    """
    with _refused():
        return _made(on, queue, when, timeout)


@contextmanager
def _refused() -> Iterator[None]:
    """Whatever is wrong with what a gate is made of is a ``GateError``."""
    try:
        yield
    except GateError:
        raise
    except InvalidArgument as error:
        raise GateError(str(error)) from error


def _made(on: object, queue: object, when: object, timeout: float | timedelta | None) -> Gate[Any]:
    watched = _watched(on)
    new = NewGate(
        id=new_id(),
        on=watched,
        need=needed(when, len(watched)),
        of=condition(when).of,
        timeout=checked_timeout(timeout),
        descendants=condition(when).descendants,
    )
    jobs = _held(queue)
    if not {job.id for job in jobs}.isdisjoint(watched):
        raise GateError("a gate cannot wait for a job that it holds: it would never fire")
    named = names.child_name("gate/" + "/".join((*watched, *(job.id for job in jobs))))
    return Gate(new if named is None else replace(new, id=named.id), jobs)


def needed(when: object, total: int) -> int:
    """The number of ``total`` watched jobs that a condition needs. Raises ``GateError``."""
    asked = condition(when)
    try:
        return asked.needed(total)
    except InvalidArgument as error:
        raise GateError(f"{error}: it would never fire") from error


def condition(when: object) -> When:
    """A condition. Raises ``GateError``."""
    if not isinstance(when, When):
        raise GateError(
            "when must be offpath.all_succeeded, all_settled, any_succeeded, at_least(n), "
            "descendants_succeeded or descendants_settled, "
            f"not {type(when).__name__}"
        )
    return when


def checked_timeout(timeout: float | timedelta | None) -> float | None:
    """Seconds, more than none. Raises ``GateError``."""
    if timeout is None:
        return None
    with _refused():
        limit = checks.seconds(timeout, "timeout")
    if limit == 0:
        raise GateError("a gate's timeout must be more than 0 seconds; None waits for ever")
    return limit


def first_that_reads(readers: Iterable[Callable[[str | None], Any]], text: str | None) -> Any:  # noqa: ANN401 - whatever they read
    """``text`` as the first reader has it that can. Raises what the last one raised."""
    failure: Exception | None = None
    for read in readers:
        try:
            return read(text)
        except Exception as error:  # noqa: BLE001 - raised below, unless another one can
            failure = error
    if failure is None:
        raise InvalidArgument("there is nothing that could read this value")
    raise failure


def _watched(on: object) -> tuple[str, ...]:
    if isinstance(on, str | Job) or not isinstance(on, Iterable):
        raise InvalidArgument("a gate's `on` takes a list of jobs, handles or ids: on=[job]")
    return tuple(dict.fromkeys(map(_id_of, on)))


def _id_of(one: object) -> str:
    known = one if isinstance(one, str) else getattr(one, "id", None)
    if not isinstance(known, str):
        kind = type(one).__name__
        raise InvalidArgument(f"a gate's `on` takes jobs, handles and ids, not {kind}")
    return parse_id(known, "an id of a gate's `on`")


def _held(queue: object) -> tuple[Job[Any, Any], ...]:
    if not isinstance(queue, Iterable) or isinstance(queue, str):
        raise InvalidArgument("a gate's `queue` takes a list of jobs: queue=[task.job(...)]")
    jobs = tuple(queue)
    if not jobs:
        raise InvalidArgument("a gate's `queue` takes at least one job: queue=[task.job(...)]")
    for each in jobs:
        if not isinstance(each, Job):
            raise InvalidArgument(
                f"a gate holds jobs as task.job(...) makes them, not {type(each).__name__}"
            )
    if len({job.id for job in jobs}) < len(jobs):
        raise InvalidArgument("a gate holds each job once: the same one is in `queue` twice")
    return jobs
