"""Plans: what a handler returns when it is not a plain value, and what becomes of it.

A plan is built through the context (``ctx.result``, ``ctx.queue``, ``.next``) and returned; only
then is it carried out, in the transaction that records the handler's success. Carrying out is pure
here: from a plan to jobs, gates and contributions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import GateError, InvalidArgument, PlanError
from offpath.jobs.values.blueprint import queue_level
from offpath.jobs.values.gates import Gate, all_succeeded, checked_timeout, condition, needed
from offpath.jobs.values.handle import Handle
from offpath.jobs.values.job import G_co, Job, Member, S_co, Unknowable
from offpath.jobs.values.names import ordered
from offpath.model import checks
from offpath.model.gate import NewGate, When, require_ends
from offpath.model.job import JobState, NewJob
from offpath.model.limit_options import LimitChoice
from offpath.model.options import OptionLevel, Options, Unique
from offpath.model.retry import RetryOptions, RetryPolicy
from offpath.model.unsent import unsent
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Never

    from offpath.model.job import LeasedJob

S = TypeVar("S")
G = TypeVar("G")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

Item: TypeAlias = "Job[Any, Any] | Gate[Any] | Plan[Any, Any]"


MADE_ELSEWHERE = (
    "was made by the context of another job, or of another attempt: make it anew, by this one's"
)


class Given(Struct, frozen=True, kw_only=True):
    """A value that a plan contributes."""

    value: Any
    final: bool = False
    append: Callable[[Any, Any], Any] | None = None

    @property
    def plain(self) -> bool:
        """True if it is only a returned value."""
        return not self.final and self.append is None


class NextOptions(TypedDict, total=False):
    """The keywords of ``.next(...)``: options of each job that it lists."""

    delay: float | timedelta | None
    run_at: datetime | None
    priority: int | None
    queue: str | None
    retry: RetryOptions | RetryPolicy | int | None
    deadline: datetime | timedelta | float | None
    unique: Unique | str | Literal[False] | None
    tags: Sequence[str] | None
    retention: float | timedelta | None
    announce: Collection[JobState | str] | None
    announce_details: bool | None
    limit: LimitChoice
    fair_key: str | None
    headers: Mapping[str, str] | None


class PlanOptions(NextOptions, total=False):
    """The keywords of ``ctx.queue(...)``: options of each job that it lists."""

    timeout: float | timedelta | None
    """The longest that one attempt may take. In ``.next`` the word is the wait's."""


class _Link(Struct, frozen=True, kw_only=True):
    """The items that follow when enough of those before them have ended."""

    items: tuple[Item, ...]
    when: When
    timeout: float | None
    level: OptionLevel | None


class PlanShape:
    """The engine's side of a plan: what it lists, and what follows."""

    __slots__ = ("given", "level", "links", "listed", "maker")

    def __init__(
        self,
        maker: object,
        items: tuple[Item, ...],
        *,
        given: Given | None,
        level: OptionLevel | None,
    ) -> None:
        self.maker = maker
        """The attempt that made it."""
        self.listed = items
        """The items of a ``ctx.queue``."""
        self.given = given
        """The value of a ``ctx.result``; None for a ``ctx.queue``."""
        self.level = level
        """The options of what it lists."""
        self.links: list[_Link] = []
        """The links that follow, in order."""

    def members(self) -> Iterator[Item]:
        """The items that it lists, and those that its ``next`` list."""
        yield from self.listed
        for link in self.links:
            yield from link.items

    @property
    def size(self) -> int:
        """The most jobs that it has by itself, those that its gates hold included."""
        return sum(len(one.jobs) if isinstance(one, Gate) else 1 for one in self.members())

    def jobs(self) -> Iterator[Job[Any, Any]]:
        """The jobs of it alone, those that its gates hold included."""
        for item in self.members():
            if isinstance(item, Gate):
                yield from item.jobs
            elif isinstance(item, Job):
                yield item

    def gates(self) -> Iterator[Gate[Any]]:
        """The gates of it alone."""
        return (item for item in self.members() if isinstance(item, Gate))


def shape_of(plan: Plan[Any, Any]) -> PlanShape:
    """The engine's side of a plan."""
    return plan._shape  # noqa: SLF001 - the one way to it


def reach(plan: Plan[Any, Any]) -> Iterator[Plan[Any, Any]]:
    """This plan and all inside it, each once."""
    left: list[Plan[Any, Any]] = [plan]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            left += (item for item in shape_of(one).members() if isinstance(item, Plan))


class Plan(Generic[S_co, G_co]):
    """The jobs that a handler asks for, to be returned from it.

    ``ctx.result(value)`` and ``ctx.queue(*jobs)`` make plans. One that was made and is not
    returned, by itself or inside another one, is an error of the program: the job is dead at once
    with a ``PlanError``, unless ``strict=False`` is said (then it has no effect).
    """

    __slots__ = ("_shape",)

    def __init__(
        self,
        maker: object,
        items: tuple[Item, ...] = (),
        *,
        given: Given | None = None,
        level: OptionLevel | None = None,
    ) -> None:
        self._shape = PlanShape(maker, items, given=given, level=level)

    def __repr__(self) -> str:
        """Show its shape; no values."""
        shape = self._shape
        what = "result" if shape.given is not None else f"queue of {len(shape.listed)}"
        return f"<Plan {what}, {len(shape.links)} next>"

    if not TYPE_CHECKING:  # for type checkers it cannot be awaited at all

        def __await__(self) -> Never:
            """Raise ``PlanError``: nothing of a plan happens before it is returned."""
            raise PlanError(
                f"{self!r} was awaited: return it, do not await it; it is carried out with the end "
                "of this attempt"
            )

    @overload
    def next(
        self,
        *items: Unknowable,
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S_co, Any]: ...
    @overload
    def next(
        self,
        *items: Member[Never],
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S_co, G_co]: ...
    @overload
    def next(
        self: Plan[S, None],
        a: Member[A],
        b: Member[B],
        /,
        *more: Member[C],
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S, A | B | C]: ...
    @overload
    def next(
        self: Plan[S, None],
        *items: Member[A],
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S, A]: ...
    @overload
    def next(
        self: Plan[S, G],
        a: Member[A],
        b: Member[B],
        /,
        *more: Member[C],
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S, G | A | B | C]: ...
    @overload
    def next(
        self: Plan[S, G],
        *items: Member[A],
        when: When = ...,
        timeout: float | timedelta | None = ...,
        **options: Unpack[NextOptions],
    ) -> Plan[S, G | A]: ...
    def next(
        self,
        *items: Any,
        when: When = all_succeeded,
        timeout: float | timedelta | None = None,
        **options: Unpack[NextOptions],
    ) -> Plan[Any, Any]:
        """Queue ``items`` when the jobs before them have ended as ``when`` says.

        The first ``next`` waits for the jobs of this plan (those of nested plans too), each further
        one for those of the ``next`` before it; after ``ctx.result(...)`` the first one follows
        this job itself. ``options`` are the options of these jobs. After ``timeout`` seconds of
        waiting, counted from when this plan is carried out, the jobs are dead with reason
        ``gate_timeout``. Changes this plan, and returns it.

        Raises ``PlanError`` for what cannot be queued so, ``GateError`` for the wait.
        """
        level = level_of(options)
        link = _Link(
            items=checked_items(items, self._shape.maker),
            when=condition(when),
            timeout=checked_timeout(timeout),
            level=level,
        )
        self._shape.links.append(link)
        return self

    if TYPE_CHECKING:

        @overload
        def _gives(self: Plan[Any, Unknowable]) -> Any: ...  # noqa: ANN401 - see Member
        @overload
        def _gives(self: Plan[Any, None]) -> Never: ...
        @overload
        def _gives(self) -> G_co: ...
        def _gives(self) -> Any: ...


def level_of(options: NextOptions | PlanOptions) -> OptionLevel | None:
    """Checked options of the jobs that a plan lists. Raises ``PlanError``."""
    try:
        checks.known(options, PlanOptions.__annotations__, "the jobs of a plan have no option")
        return queue_level(Options(**options)) if options else None
    except InvalidArgument as error:
        raise PlanError(f"the options of a plan's jobs: {error}") from error


def checked_items(items: Sequence[Any], maker: object) -> tuple[Item, ...]:
    """The items that a plan lists, checked. Raises ``PlanError``."""
    for each in items:
        if isinstance(each, Plan):
            if shape_of(each).maker is not maker:
                raise PlanError(f"this plan {MADE_ELSEWHERE}")
        elif not isinstance(each, Job | Gate):
            raise PlanError(
                "a plan lists jobs as task.job(...) makes them, plans and gates, not "
                f"{type(each).__name__}{_advice(each)}"
            )
    return tuple(items)


def _advice(each: object) -> str:
    match each:
        case list() | tuple() | set() | frozenset() | Iterator():
            return ": give those of a list as `*jobs`"
        case Handle():
            return ": its job was sent already; a gate can wait for it, offpath.gate(on=[handle])"
        case _ if callable(getattr(each, "job", None)):
            return ": a task makes jobs, task.job(...)"
        case _:
            return ""


# -- carrying out ------------------------------------------------------------------------------


class Carried(Struct, frozen=True, kw_only=True):
    """A plan as what is to be committed."""

    own: Given | None
    """The job's own result, where the plan is a ``ctx.result``."""
    given: tuple[Given, ...]
    """Values that plans inside it contribute."""
    jobs: tuple[NewJob, ...]
    gates: tuple[NewGate, ...]


def carried_out(plan: Plan[Any, Any], job: LeasedJob) -> Carried:
    """The effects of the plan that ``job`` returned. Raises ``PlanError``."""
    own = shape_of(plan).given
    carrier = _Carrier(job, sum(shape_of(one).size for one in reach(plan)))
    try:
        carrier.walk(plan, None, ())
    except RecursionError as error:
        raise PlanError(
            "plans are nested too deeply in each other: list them side by side, ctx.queue(*plans)"
        ) from error
    carrier.require_ends()
    return Carried(
        own=own,
        given=tuple(carrier.given[1:] if own is not None else carrier.given),
        jobs=tuple(carrier.jobs.values()),
        gates=tuple(carrier.gates),
    )


class _Carrier:
    """Collects what a plan means, in the order of its making."""

    def __init__(self, job: LeasedJob, size: int) -> None:
        self._job = job
        self._size = size
        self._seen: set[int] = set()
        self._links = 0
        self.jobs: dict[str, NewJob] = {}
        self.gates: list[NewGate] = []
        self.given: list[Given] = []

    def walk(
        self, plan: Plan[Any, Any], gate: str | None, waited: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Take in a plan whose jobs a gate holds; returns the ids of its jobs."""
        if id(plan) in self._seen:
            raise PlanError("the same plan is in this plan twice")
        self._seen.add(id(plan))
        shape = shape_of(plan)
        if shape.given is not None:
            self.given.append(shape.given)
            ids: tuple[str, ...] = ()
            before: tuple[str, ...] = (self._job.id,)
        else:
            ids = before = self._items(shape.listed, shape.level, gate, waited)
        for link in shape.links:
            before = self._follow(link, before)
            ids += before
        return ids

    def require_ends(self) -> None:
        """Raise ``PlanError`` when gates wait for each other in a circle."""
        held = {job.id: job.gate for job in self.jobs.values() if job.gate is not None}
        try:
            require_ends(self.gates, held)
        except GateError as error:
            raise PlanError(str(error)) from error

    def _follow(self, link: _Link, before: tuple[str, ...]) -> tuple[str, ...]:
        try:
            need = needed(link.when, len(before))
        except GateError as error:
            raise PlanError(f".next: {error}") from error
        self._links += 1
        # This job itself has succeeded when its plan is carried out: nothing is left to wait for.
        if not need or before == (self._job.id,):
            if link.when.descendants and before:
                raise PlanError(
                    ".next: it follows this job itself, whose descendants it would be one of: list "
                    "the jobs that it waits for, ctx.queue(...).next(...)"
                )
            return self._items(link.items, link.level, None, before)
        gate = NewGate(
            id=derive_id(self._job.id, f"next/{self._links}"),
            on=before,
            need=need,
            of=link.when.of,
            timeout=link.timeout,
            descendants=link.when.descendants,
        )
        if held := self._items(link.items, link.level, gate.id, before):
            self.gates.append(gate)
        return held

    def _items(
        self,
        items: Iterable[Item],
        level: OptionLevel | None,
        gate: str | None,
        waited: tuple[str, ...],
    ) -> tuple[str, ...]:
        ids: list[str] = []
        for item in items:
            match item:
                case Plan():
                    _refuse_late_value(item, gate)
                    ids += self.walk(item, gate, waited)
                case Gate():
                    ids += self._gate(item, level, gate)
                case _:
                    ids.append(self._add(_with(item, level), gate, waited))
        return tuple(dict.fromkeys(ids))

    def _gate(self, gate: Gate[Any], level: OptionLevel | None, outer: str | None) -> list[str]:
        if outer is not None:
            raise PlanError("a job waits at one gate: `.next` takes jobs and plans, no gates")
        if gate.new is not None and gate.new not in self.gates:
            self.gates.append(gate.new)
        holds = None if gate.new is None else gate.id
        return [self._add(_with(job, level), holds, gate.on) for job in gate.jobs]

    def _add(self, new: NewJob, gate: str | None, waited: tuple[str, ...]) -> str:
        known = self.jobs.get(new.id)
        place = len(self.jobs) if known is None else list(self.jobs).index(new.id)
        joined = replace(
            new,
            parent=self._job.id,
            group_id=self._job.group_id,
            gate=gate,
            dependents=waited,
            delay=ordered(new.delay, place, self._size),
        )
        if known is None:
            self.jobs[new.id] = joined
        elif known != joined:
            raise PlanError(
                f"job {new.id} of task {new.task} is in this plan twice, in different places"
            )
        return new.id


def _with(job: Job[Any, Any], level: OptionLevel | None) -> NewJob:
    one = unsent(job)
    return one.new if level is None else one.with_options(level)


def _refuse_late_value(plan: Plan[Any, Any], gate: str | None) -> None:
    if gate is not None and any(shape_of(one).given is not None for one in reach(plan)):
        raise PlanError("a value does not wait: put ctx.result(...) into ctx.queue(...)")
