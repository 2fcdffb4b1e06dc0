"""``ctx.result`` and ``ctx.queue``: how a handler makes plans, and what its return means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from msgspec.structs import replace

from offpath.errors import PlanError
from offpath.jobs.values.group_values import GroupValues, checked_size
from offpath.jobs.values.plan import (
    MADE_ELSEWHERE,
    Given,
    Plan,
    PlanOptions,
    carried_out,
    checked_items,
    level_of,
    reach,
    shape_of,
)
from offpath.model.effects import Effects
from offpath.model.group import Contribution
from offpath.model.settlement import Succeeded
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet
    from typing import Never

    from offpath.jobs.handler.notes import Notes
    from offpath.jobs.values.job import Member, Unknowable
    from offpath.jobs.values.run import Run
    from offpath.model.job import NewJob

V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
H = TypeVar("H")
J = TypeVar("J")
K = TypeVar("K")


class PlanVerbs:
    """The part of a context that makes plans."""

    __slots__ = ()

    _notes: Notes

    def _require_going(self) -> None:
        raise NotImplementedError

    def result(
        self, value: V, *, final: bool = False, append: Callable[[V, V], V] | None = None
    ) -> Plan[V, V]:
        """Give a value: as the job's own result, where this is what the handler returns, and to
        the value of its group. Nothing happens unless the plan is returned.

        In a group the last value given wins. With ``final`` none that comes later counts, and the
        first final one stays. ``append`` folds: ``append=operator.add`` adds this value to the
        group's value so far (exactly, however many do so at once); it must be quick and touch
        nothing, since it runs under the group's lock. None gives nothing.

        Raises ``PlanError``, and ``InvalidArgument`` after the attempt has ended.
        """
        if append is not None and not callable(append):
            raise PlanError("append must be a function of two values, like operator.add")
        return self._made(Plan(self._notes, given=Given(value=value, final=final, append=append)))

    @overload
    def queue(self, **options: Unpack[PlanOptions]) -> Plan[None, None]: ...
    @overload
    def queue(self, *items: Unknowable, **options: Unpack[PlanOptions]) -> Plan[None, Any]: ...
    @overload
    def queue(self, *items: Member[Never], **options: Unpack[PlanOptions]) -> Plan[None, None]: ...
    @overload
    def queue(self, a: Member[A], /, **options: Unpack[PlanOptions]) -> Plan[None, A]: ...
    @overload
    def queue(
        self, a: Member[A], b: Member[B], /, **options: Unpack[PlanOptions]
    ) -> Plan[None, A | B]: ...
    @overload
    def queue(
        self, a: Member[A], b: Member[B], c: Member[C], /, **options: Unpack[PlanOptions]
    ) -> Plan[None, A | B | C]: ...
    @overload
    def queue(
        self,
        a: Member[A],
        b: Member[B],
        c: Member[C],
        d: Member[D],
        /,
        **options: Unpack[PlanOptions],
    ) -> Plan[None, A | B | C | D]: ...
    @overload
    def queue(
        self,
        a: Member[A],
        b: Member[B],
        c: Member[C],
        d: Member[D],
        e: Member[E],
        /,
        **options: Unpack[PlanOptions],
    ) -> Plan[None, A | B | C | D | E]: ...
    @overload
    def queue(
        self,
        a: Member[A],
        b: Member[B],
        c: Member[C],
        d: Member[D],
        e: Member[E],
        f: Member[F],
        /,
        **options: Unpack[PlanOptions],
    ) -> Plan[None, A | B | C | D | E | F]: ...
    @overload
    def queue(
        self,
        a: Member[A],
        b: Member[B],
        c: Member[C],
        d: Member[D],
        e: Member[E],
        f: Member[F],
        g: Member[H],
        /,
        **options: Unpack[PlanOptions],
    ) -> Plan[None, A | B | C | D | E | F | H]: ...
    @overload
    def queue(
        self,
        a: Member[A],
        b: Member[B],
        c: Member[C],
        d: Member[D],
        e: Member[E],
        f: Member[F],
        g: Member[H],
        h: Member[J],
        /,
        *more: Member[K],
        **options: Unpack[PlanOptions],
    ) -> Plan[None, A | B | C | D | E | F | H | J | K]: ...
    @overload
    def queue(self, *items: Member[A], **options: Unpack[PlanOptions]) -> Plan[None, A]: ...
    def queue(self, *items: Any, **options: Unpack[PlanOptions]) -> Plan[Any, Any]:
        """Queue jobs, other plans and gates, if this plan is returned.

        They join this job's group, with it as their parent, in the transaction that records its
        success; its own result is then None. A handler that runs again names its jobs as before,
        so no job is queued twice. ``options`` are options of each job listed here (not of those in
        nested plans). ``.next(...)`` says what follows them.

        Raises ``PlanError`` for what cannot be queued, and for options.
        """
        level = level_of(options)
        return self._made(Plan(self._notes, checked_items(items, self._notes), level=level))

    def _made(self, plan: Plan[Any, Any]) -> Plan[Any, Any]:
        self._require_going()
        self._notes.plans.append(plan)
        return plan


def require_returned(made: Iterable[Plan[Any, Any]], returned: object) -> None:
    """Raise ``PlanError`` when one of the plans made is not part of what was returned."""
    kept = {id(one) for one in reach(returned)} if isinstance(returned, Plan) else set()
    lost = [one for one in made if id(one) not in kept]
    if lost:
        raise PlanError(
            f"{len(lost)} of the plans that the handler made were not returned ({lost[0]!r} is the "
            "first): return them, inside of one ctx.queue(...) if there are several, or define the "
            "task with strict=False to have them dropped"
        )


def carry(run: Run, plan: Plan[Any, Any], maker: object, limit: int) -> tuple[Succeeded, Effects]:
    """The end of a job that returned a plan, and the plan's effects. Raises what encoding raises,
    ``PlanError`` and ``TooLarge``.
    """
    if shape_of(plan).maker is not maker:
        raise PlanError(f"the plan {MADE_ELSEWHERE}")
    carried = carried_out(plan, run.job)
    own, values = carried.own, run.task.group_values
    text = None if own is None else run.task.results.encode(own.value)
    if text is not None:
        checked_size(text, limit, "the result")
    # A task with a codec of its own signs what it gives, so its result as it is does not count.
    plain = own is not None and own.plain and not values.signs
    given = carried.given if own is None or plain else _in_order(own, carried.given)
    made = (_contribution(one, values, limit) for one in given)
    return (
        Succeeded(result=text, contributes=plain),
        Effects(
            jobs=carried.jobs,
            gates=carried.gates,
            contributions=tuple(one for one in made if one is not None),
        ),
    )


def _in_order(own: Given, others: tuple[Given, ...]) -> tuple[Given, ...]:
    """A plain result counts after what nested plans give; one that folds or is final, before."""
    return (*others, own) if own.plain else (own, *others)


def _contribution(given: Given, values: GroupValues, limit: int) -> Contribution | None:
    text = values.encode(given.value)
    if text is None:
        return None
    append = given.append
    fold = None if append is None else values.fold(append, given.value, limit)
    payload = checked_size(text, limit, "the group's value")
    return Contribution(payload=payload, final=given.final, fold=fold)


def named_anew(effects: Effects, deliveries: int, named: AbstractSet[str]) -> Effects:
    """The effects of an attempt that snoozed: its job runs again, and queues anew what it queues.

    So what this run has queued gets names of its own, in place of those of every run (``named``).
    An id that was given stays: who gives one means one job.
    """
    if named.isdisjoint(job.id for job in effects.jobs):
        return effects
    jobs = (_anew(job, deliveries) if job.id in named else job for job in effects.jobs)
    return replace(effects, jobs=tuple(jobs))


def _anew(job: NewJob, deliveries: int) -> NewJob:
    return replace(job, id=derive_id(job.id, f"run/{deliveries}"))
