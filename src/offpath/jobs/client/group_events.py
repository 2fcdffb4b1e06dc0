"""The report of a group's end, and its receiver: the hook for groups that nobody awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument
from offpath.jobs.client.hooks import HookHung, done_groups, given_up, remaining
from offpath.jobs.values.group_values import plain_value
from offpath.model.group import GroupPolicy, GroupRecord
from offpath.model.quiet import Quiet
from offpath.runtime.tasks import Tasks

if TYPE_CHECKING:
    from offpath.jobs.client.hooks import Reporter
    from offpath.jobs.values.group_codecs import GroupCodecs
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store
    from offpath.store.telemetry.moves import MoveStep

GRACE = 0.1
"""Seconds in which somebody may still begin to wait for a group that is done."""
AWAITED = "awaited"
"""The holder of the name of a group that somebody waits for."""
KEEP_AWAITED = 30 * 86_400.0
"""Seconds for which a wait is remembered: one that began longer ago counts no more, elsewhere."""
KEEP_TOLD = 86_400.0


class Group(Quiet, frozen=True, kw_only=True):
    """A group as it was when the store was asked."""

    id: str
    open: int
    """Members that have not ended. The group is done at 0."""
    failed: int
    """Members that are dead or cancelled."""
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    closing: bool = False
    """True if its open members are being cancelled."""
    value: Any = None
    """The sum of what its members gave, as plain data; None when nobody gave any."""
    fault: str | None = None
    """The reason why their value cannot be read or folded; then ``value`` is None."""

    @classmethod
    def of(cls, record: GroupRecord, codecs: GroupCodecs) -> Group:
        """The group of a record, with its value read."""
        value, fault = None, None
        try:
            value = plain_value(record.result, codecs)
        except InvalidArgument as error:
            fault = str(error)
        return cls(
            id=record.id,
            open=record.open,
            failed=record.failed,
            policy=record.policy,
            closing=record.closing,
            value=value,
            fault=fault,
        )

    @property
    def done(self) -> bool:
        """True if every member has ended."""
        return self.open == 0


OnOrphanGroup = Callable[[Group], "Awaitable[None] | None"]
"""Is told about a group that is done and that nobody waited for."""


def claim_key(group_id: str) -> str:
    """The name that is claimed by whoever waits for a group, or else by whoever tells of its
    end.
    """
    return f"offpath.group:{group_id}"


class OrphanWatch:
    """Tells the hook of groups that ended in this process and that nobody in the fleet awaited.

    An observer of the store. Whoever waits claims the group's name; the process in which the group
    ended claims it a moment later, and tells the hook if it gets it.
    """

    ends_only = True
    tasks = None

    def __init__(
        self,
        hook: OnOrphanGroup,
        *,
        clock: Callable[[], Clock],
        store: Callable[[], Store],
        codecs: GroupCodecs,
        awaited: Callable[[str], bool],
        report: Reporter,
        new_id: Callable[[], str],
    ) -> None:
        self._hook = hook
        self._clock = clock
        self._store = store
        self._codecs = codecs
        self._awaited = awaited
        self._report = report
        self._new_id = new_id
        self._me = new_id()
        self._tasks = Tasks(report)
        self._closing = asyncio.Event()
        self._going: set[asyncio.Task[None]] = set()

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:  # noqa: ARG002 - an observer's
        """See which groups ended."""
        groups = done_groups(steps)
        if groups:
            task = self._tasks.spawn(self._tell_all(groups), "orphan_group")
            self._going.add(task)
            task.add_done_callback(self._going.discard)

    async def flush(self, patience: float | None = None) -> None:
        """Tell of what has ended so far, without further grace; give up after ``patience``."""
        self._closing.set()
        left = remaining(patience)
        while self._going and left() != 0.0:
            await asyncio.wait(tuple(self._going), timeout=left())
        if self._going:
            self._report(HookHung.of("on_orphan_group", patience), "orphan_group")
            await given_up(tuple(self._going))
        self._closing = asyncio.Event()  # an event belongs to the loop that it was used in

    def forked(self) -> object:
        """In a child of a fork: leave what the parent tells, and claim by a name of its own."""
        left = self._tasks, self._going, self._closing
        self._tasks, self._going, self._closing = Tasks(self._report), set(), asyncio.Event()
        self._me = self._new_id()
        return left

    async def _tell_all(self, groups: Sequence[str]) -> None:
        await self._clock().wait(self._closing, GRACE)
        for group_id in groups:
            try:
                await self._tell(group_id)
            except Exception as error:  # noqa: BLE001 - a hook disturbs nothing
                self._report(error, "orphan_group")

    async def _tell(self, group_id: str) -> None:
        store = self._store()
        if self._awaited(group_id):
            return
        if not await store.claim(claim_key(group_id), self._me, ttl=KEEP_TOLD):
            return
        found = await store.groups((group_id,))
        gone = GroupRecord(id=group_id, open=0, failed=0)
        answer = self._hook(Group.of(found[0] if found else gone, self._codecs))
        if inspect.isawaitable(answer):
            await answer
