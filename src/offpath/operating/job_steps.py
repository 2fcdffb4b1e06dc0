"""Steps on jobs and groups: cancel, redrive, run now, delete, signal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.jobs.client.jobs_view import chosen
from offpath.model.amendment import AMENDABLE
from offpath.model.brief import JobBrief
from offpath.model.changes import ChangedJob
from offpath.model.job import LIVE, TERMINAL, JobFilter, JobRecord, JobState
from offpath.operating import views
from offpath.operating.steps import CHUNK, ActionWork, Step, Stepped, once, rows
from offpath.operating.targets import GroupsTarget, JobsTarget, SignalTarget
from offpath.runtime.ids import parse_id
from offpath.store.gate_needs import still_behind
from offpath.store.protocol import JobRedrive

Change = Callable[[App, ActionWork, Sequence[str]], Awaitable[list[ChangedJob]]]

CANCELLABLE: Final = LIVE
REDRIVABLE: Final = frozenset({JobState.DEAD, JobState.CANCELLED})
WAITING: Final = AMENDABLE
QUEUED: Final = frozenset({JobState.QUEUED})
DELETABLE: Final = TERMINAL


class RedriveOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a redrive."""

    per_second: float | None = None
    """The most jobs that become due in a second; None: all at once."""


class SignalOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a signal."""

    payload: Any = None


class _JobChunk(Struct, frozen=True):
    """The jobs of one step."""

    records: Sequence[JobRecord | JobBrief]
    unknown: int
    cursor: str | None
    more: bool


def filter_for(target: JobsTarget, allowed: frozenset[JobState]) -> JobFilter:
    """The filter of a target, up to its moment of asking. Raises ``InvalidArgument``."""
    where = None if target.where is None else target.where.chosen()
    found = chosen((), where or JobFilter(), allowed=allowed, everything=True)
    if not found.states:
        named = ", ".join(sorted(one.value for one in allowed))
        raise InvalidArgument(f"no job that matches can be: it would have to be {named}")
    ended = target.before if allowed <= TERMINAL else None
    return replace(
        found,
        enqueued_before=_earlier(found.enqueued_before, target.before),
        finished_before=_earlier(found.finished_before, ended),
    )


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """The earlier of two bounds; None stands for the lack of one."""
    return min((each for each in (one, other) if each is not None), default=None)


def step_of(allowed: frozenset[JobState], change: Change) -> Step:
    """The step that changes jobs in these states."""

    async def step(app: App, work: ActionWork) -> Stepped:
        chunk = await _chunk(app, work, allowed)
        able, left = _sorted_out(chunk, allowed, work.target.before)
        done = {one.id for one in await change(app, work, able)} if able else set()
        if change is redrive:
            behind = await still_behind(app.store(), [each for each in able if each not in done])
            able = [each for each in able if each not in behind]
            left["behind_its_gate"] += len(behind)
        refused = sum(one not in done for one in able)
        if refused:
            left["refused"] += refused
        changed = sum(one in done for one in able)
        return rows(changed=changed, left=left, cursor=chunk.cursor, more=chunk.more)

    return step


async def _chunk(app: App, work: ActionWork, allowed: frozenset[JobState]) -> _JobChunk:
    target, after = work.target, work.record.cursor
    if not target.ids:
        # It looks at a bounded number of rows, whatever matches: then the next step goes on there.
        page = await app.store().browse(
            filter_for(target, allowed), limit=CHUNK, after=after, newest=False
        )
        return _JobChunk(page.items, 0, page.next or after, page.next is not None)
    ids = sorted({parse_id(each, "id") for each in target.ids})
    rest = [each for each in ids if after is None or each > after]
    own = rest[:CHUNK]
    records = await app.store().get(own) if own else []
    return _JobChunk(
        sorted(records, key=lambda one: one.id),
        len(own) - len(records),
        own[-1] if own else after,
        len(rest) > CHUNK,
    )


def _sorted_out(
    chunk: _JobChunk, allowed: frozenset[JobState], before: datetime | None
) -> tuple[list[str], Counter[str]]:
    """The jobs that may be changed, and the reasons why others may not."""
    able: list[str] = []
    left: Counter[str] = Counter({"unknown": chunk.unknown} if chunk.unknown else {})
    for one in chunk.records:
        if one.state not in allowed:
            left[f"is_{one.state.value}"] += 1
        elif before is not None and _moved_since(one, before, allowed):
            left["moved_since"] += 1
        else:
            able.append(one.id)
    return able, left


def _moved_since(one: JobRecord | JobBrief, moment: datetime, allowed: frozenset[JobState]) -> bool:
    """True if a job was not what it is at the moment of asking: it has ended, or come back, since.

    Jobs that were named are what their asker wants, also when another has put them back.
    """
    if allowed <= TERMINAL:
        return one.finished_at is not None and one.finished_at > moment
    return isinstance(one, JobBrief) and one.redriven_at is not None and one.redriven_at > moment


# -- what is done ----------------------------------------------------------------------------------


async def cancel(app: App, _: ActionWork, ids: Sequence[str]) -> list[ChangedJob]:
    """Cancel them: waiting ones at once, running ones are told."""
    return await app.store().cancel(ids, keep=app.settings.keep_cancelled)


async def redrive(app: App, work: ActionWork, ids: Sequence[str]) -> list[ChangedJob]:
    """Put them back as fresh, one after another at the rate that was asked for."""
    rate, before = work.options.per_second, work.record.changed
    pause = 1.0 / rate if rate else 0.0
    return await app.store().redrive(
        [JobRedrive(id=each, delay=(before + place) * pause) for place, each in enumerate(ids)]
    )


async def run_now(app: App, _: ActionWork, ids: Sequence[str]) -> list[ChangedJob]:
    """Make them due now."""
    return await app.store().redrive([JobRedrive(id=each) for each in ids])


async def amend(app: App, work: ActionWork, ids: Sequence[str]) -> list[ChangedJob]:
    """Give them other terms."""
    return await app.store().amend(ids, work.options)


async def delete(app: App, _: ActionWork, ids: Sequence[str]) -> list[ChangedJob]:
    """Remove them with their history."""
    return await app.store().delete(ids)


async def signal(app: App, work: ActionWork) -> Stepped:
    """Tell a job that waits. A repeat of the action is the same signal."""
    target: SignalTarget = work.target
    sent = await app.signal(target.target, target.event, work.options.payload, id=work.record.id)
    return once(changed=sent, why="sent_before")


async def cancel_group(app: App, work: ActionWork) -> Stepped:
    """Cancel what is open in groups, and what would still join them."""
    target: GroupsTarget = work.target
    ids = [(await views.group_record(app, each)).id for each in target.named()]
    keep = app.settings.keep_cancelled
    done = await app.store().cancel_groups(ids, limit=CHUNK, keep=keep)
    return Stepped(changed=len(done), more=bool(done))
