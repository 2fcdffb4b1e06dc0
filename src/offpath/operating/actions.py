"""Actions: asking for one, carrying it out step by step, and carrying on what a dead process left.

The row is written first, then each step is one transition of the store and one write of the row.
So whoever reads the row knows what was begun, and a step that is repeated changes nothing twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.errors import (
    AppClosed,
    IdConflict,
    InvalidArgument,
    NotFound,
    OffpathError,
    StoreError,
    StoreRejected,
    Unconfirmed,
)
from offpath.model import checks
from offpath.model.action import (
    LONGEST_NAME,
    LONGEST_NOTE,
    STOP,
    ActionFilter,
    ActionProgress,
    ActionRecord,
    ActionState,
    NewAction,
)
from offpath.model.brief import Kind
from offpath.model.redact import redact_text
from offpath.operating import previews
from offpath.operating.orders import ActionAsked, ActionOrder, order_of
from offpath.operating.short_ids import whole
from offpath.operating.steps import CHUNK, DONE, ActionWork, Stepped, once
from offpath.operating.targets import RowsTarget
from offpath.operating.verbs import VERBS, Verb, verb_of
from offpath.runtime.ids import new_id, parse_id

LEASE: Final = 30.0
"""Seconds for which an action is held between two of its steps."""
MOST_HISTORY: Final = 200
"""Actions that are looked at for those of one job: they have no index by it."""


class Asker(Struct, frozen=True, kw_only=True):
    """Somebody who asks, and the way by which it came. Raises ``InvalidArgument`` for a name that
    no row can hold: before anything is written.
    """

    name: str
    via: str

    def __post_init__(self) -> None:
        """Check the name."""
        checks.text(self.name, "the name of who asks", longest=LONGEST_NAME)


async def preview(app: App, asked: ActionAsked, *, draft: bool = False) -> previews.Preview:
    """The number of rows that an action would be about. Raises ``InvalidArgument``.

    Of a draft, options that do not fit yet are left out.
    """
    _note(asked.note)
    return await previews.preview(app, await order_of(app, asked, draft=draft))


async def ask(app: App, asked: ActionAsked, by: Asker) -> ActionRecord:
    """Note what somebody asks for; nothing of it is done yet: see :func:`carry_out`.

    Raises ``InvalidArgument``, ``Unconfirmed`` where the number of rows is not confirmed, and
    ``IdConflict`` where the id is another action's.
    """
    action_id = new_id() if asked.id is None else parse_id(asked.id, "id")
    order = await order_of(app, asked)
    order = await _confirmed(app, order, asked.confirm)
    new = NewAction(
        id=action_id,
        actor=by.name,
        via=by.via,
        verb=order.verb.name,
        target=msgspec.json.encode(order.target).decode(),
        options=msgspec.json.encode(order.options).decode(),
        note=_note(asked.note),
        holder=f"{by.via}/{new_id()}",
        lease=LEASE,
    )
    record = await app.store().put_action(new)
    if record.holder != new.holder:
        _check_same(record, order)
    return record


def _note(text: str) -> str:
    if len(text) > LONGEST_NOTE:
        raise InvalidArgument(f"the note has more than {LONGEST_NOTE} characters")
    return text


async def _confirmed(app: App, order: ActionOrder, confirm: str | None) -> ActionOrder:
    """The order, if the number of its rows, or its name, is confirmed; with its rate."""
    if order.verb.typed is not None:
        wanted = order.verb.typed(order.target)
        if (confirm or "").strip() != wanted:
            raise Unconfirmed(f"{order.verb.name} is about money: confirm it by {wanted!r}")
    if not order.verb.states or not isinstance(order.target, RowsTarget):
        return order
    if not order.verb.final and (order.target.ids or order.verb.name != "job.redrive"):
        return order
    counted = await previews.count(app, order)
    if previews.needs_number(order.verb, counted) and not _covers(confirm, counted):
        told = "an unknown number of" if counted.rows is None else f"{counted.rows:,}"
        more = " and more" if counted.more and counted.rows else ""
        raise Unconfirmed(
            f"this is about {told}{more} rows, which cannot be brought back: confirm it by "
            f"{counted.confirmation!r}"
        )
    rate = previews.rate_of(order, counted)
    if rate is None or rate == order.options.per_second:
        return order
    return replace(order, options=replace(order.options, per_second=rate))


def _covers(confirm: str | None, counted: previews.RowCount) -> bool:
    """True if at least so many rows were confirmed: meanwhile some may have gone."""
    text = (confirm or "").strip().replace(",", "")
    if counted.confirmation == previews.UNCOUNTED:
        return text == previews.UNCOUNTED
    number = int(text[:9]) if text.isascii() and text.isdecimal() else -1
    return number >= (counted.rows or 0)


def _check_same(record: ActionRecord, order: ActionOrder) -> None:
    """Raise ``IdConflict`` for another action of this id. The moment of asking may differ."""
    known = msgspec.json.decode(record.target)
    given = msgspec.json.decode(msgspec.json.encode(order.target))
    for one in (known, given):
        one.pop("before", None)
    if record.verb != order.verb.name or known != given:
        raise IdConflict(f"the action {record.id} is another one: give a new id")


def is_small(record: ActionRecord) -> bool:
    """True if it is done by one step, so that who asks may wait for it."""
    target = msgspec.json.decode(record.target)
    return "where" not in target and len(target.get("ids", ())) <= CHUNK


async def carry_out(app: App, record: ActionRecord) -> ActionRecord:
    """Do an action to its end, from where it stands; only by its holder.

    Returns it as it is then: also when somebody stopped it, or took it over. Raises what the store
    raises while it is away; the action is then carried on by whoever comes after its lease.
    """
    advanced = Advanced(record=record)
    while advanced.goes_on:
        advanced = await advance(app, advanced.record)
    return advanced.record


class Advanced(Struct, frozen=True, kw_only=True):
    """An action after one of its steps."""

    record: ActionRecord
    elsewhere: bool = False
    """True if only a process with other code can carry it out; it is given back for that."""
    lost: bool = False
    """True if somebody else holds it, or has stopped it."""

    @property
    def goes_on(self) -> bool:
        """True if its holder has another step to do."""
        return self.record.state is ActionState.RUNNING and not (self.elsewhere or self.lost)


async def advance(app: App, record: ActionRecord) -> Advanced:
    """Do one step of an action; only by its holder. Raises as :func:`carry_out`."""
    # whoever stopped it, or took it over, wants that no more rows are changed: also before the
    # first step, which may come late
    held = await app.store().step_action(_so_far(record))
    if held is None or held.state is not ActionState.RUNNING:
        return Advanced(record=held or await action(app, record.id), lost=True)
    progress, elsewhere = await _progress(app, record)
    stepped = await app.store().step_action(progress)
    if stepped is None:
        return Advanced(record=await action(app, record.id), lost=True)
    return Advanced(record=stepped, elsewhere=elsewhere)


async def give_back(app: App, record: ActionRecord) -> None:
    """Let others go on with an action at once: whoever holds it stops."""
    await app.store().step_action(replace(_so_far(record), lease=0.0))


async def _progress(app: App, record: ActionRecord) -> tuple[ActionProgress, bool]:
    """The progress of one more step, and whether it can be done elsewhere alone."""
    try:
        async with held(app, record):
            stepped = await _stepped(app, record)
    except OffpathError as error:
        if _passing(error):
            raise
        failed = replace(_so_far(record), state=ActionState.FAILED, error=redact_text(str(error)))
        return failed, False
    if stepped.elsewhere:
        return replace(_so_far(record), lease=0.0), True
    return _after(record, stepped), False


async def _stepped(app: App, record: ActionRecord) -> Stepped:
    if record.verb == STOP:
        return await _ended(app, record)
    verb = verb_of(record.verb)
    return await verb.step(app, _work(record, verb))


async def _ended(app: App, record: ActionRecord) -> Stepped:
    """End the action that a stop names. One that goes on for a dead process finds its work done."""
    (named,) = msgspec.json.decode(record.target)["ids"]
    if await app.store().stop_action(named):
        return DONE
    known = await app.store().actions(ActionFilter(ids=(named,)), limit=1)
    before = record.resumed and bool(known) and known[0].state is ActionState.STOPPED
    return once(changed=before, why="ended_already")


def carried_verbs() -> tuple[str, ...]:
    """The verbs of actions that this process can carry on."""
    return (*VERBS, STOP)


@asynccontextmanager
async def held(app: App, record: ActionRecord) -> AsyncIterator[None]:
    """Hold an action while a step of it runs: a proof of a whole ledger takes longer than a lease.

    It is over before the step's own progress is written, so that the two never cross.
    """
    task = asyncio.ensure_future(_renewing(app, record))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _renewing(app: App, record: ActionRecord) -> None:
    """Renew the lease until somebody else has it, or the store fails: then the step ends unheld."""
    held: ActionRecord | None = record
    while held is not None:
        await app.clock.sleep(LEASE / 3)
        held = await app.store().step_action(_so_far(record))


def _work(record: ActionRecord, verb: Verb) -> ActionWork:
    """An action, read. Raises ``InvalidArgument`` for what only its command can do."""
    try:
        target = msgspec.json.decode(record.target, type=verb.target)
        options = msgspec.json.decode(record.options, type=verb.options)
    except msgspec.ValidationError as error:
        raise InvalidArgument(
            f"its process ended before it was done, and nobody else can go on: {error}"
        ) from error
    return ActionWork(record=record, target=target, options=options)


def _passing(error: OffpathError) -> bool:
    """True for what may be gone at the next try."""
    away = isinstance(error, (StoreError, AppClosed)) and not isinstance(error, StoreRejected)
    return away or error.retryable


def _so_far(record: ActionRecord) -> ActionProgress:
    return ActionProgress(
        id=record.id,
        holder=record.holder,
        lease=LEASE,
        cursor=record.cursor,
        changed=record.changed,
        unchanged=record.unchanged,
        reasons=record.reasons,
    )


def _after(record: ActionRecord, stepped: Stepped) -> ActionProgress:
    return replace(
        _so_far(record),
        state=ActionState.RUNNING if stepped.more else ActionState.DONE,
        cursor=stepped.cursor,
        changed=record.changed + stepped.changed,
        unchanged=record.unchanged + sum(stepped.left.values()),
        reasons=dict(Counter(record.reasons) + Counter(stepped.left)),
    )


async def carry_on(app: App, via: str) -> ActionRecord | None:
    """Carry out one action that a process left behind; None when there is none."""
    holder = f"{via}/{new_id()}"
    record = await app.store().take_action(holder, verbs=carried_verbs(), lease=LEASE)
    return None if record is None else await carry_out(app, record)


async def action(app: App, action_id: str) -> ActionRecord:
    """One action. Raises ``NotFound``, ``InvalidArgument``."""
    action_id = await whole(app, Kind.ACTION, action_id)
    found = await app.store().actions(ActionFilter(ids=(action_id,)), limit=1)
    if not found:
        raise NotFound(f"there is no action {action_id} (any more)")
    return found[0]


async def history(app: App, job_id: str) -> list[ActionRecord]:
    """The actions that named a job, the newest first, among the last ones on jobs."""
    where = ActionFilter(verbs=tuple(one for one in VERBS if one.startswith("job.")))
    found = await app.store().actions(where, limit=MOST_HISTORY)
    return [one for one in found if _names(one, job_id)]


def _names(record: ActionRecord, job_id: str) -> bool:
    """True if the target of an action, or what it copies, is this job."""
    if job_id not in record.target and job_id not in record.options:
        return False
    target = msgspec.json.decode(record.target)
    options = msgspec.json.decode(record.options)
    return (
        job_id in target.get("ids", ())
        or target.get("target") == job_id
        or options.get("copy_of") == job_id
    )


async def stop(app: App, action_id: str, by: Asker, note: str = "") -> ActionRecord:
    """End a running action between two of its steps. Raises ``NotFound``, ``InvalidArgument``.

    The stop is an action of its own, so that it is known whose it was. It is noted before it is
    done, and carried on by whoever comes after a process that died in between.
    """
    known = await action(app, action_id)
    await carry_out(app, await app.store().put_action(_stop_of(known, by, _note(note))))
    return await action(app, known.id)


def _stop_of(known: ActionRecord, by: Asker, note: str) -> NewAction:
    return NewAction(
        id=new_id(),
        actor=by.name,
        via=by.via,
        verb=STOP,
        target=msgspec.json.encode({"ids": [known.id]}).decode(),
        options="{}",
        note=note,
        holder=f"{by.via}/{new_id()}",
        lease=LEASE,
    )
