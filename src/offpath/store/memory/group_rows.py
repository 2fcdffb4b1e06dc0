"""Rows of groups: their members, how many are open or have failed, and their value."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import TERMINAL, JobRecord, JobState
from offpath.store.refusals import fold_raised

FAILED = (JobState.DEAD, JobState.CANCELLED)


class MemoryValue(Struct, frozen=True):
    """The value that a group has made so far."""

    payload: str | None = None
    final: bool = False

    def with_one(self, given: Contribution) -> MemoryValue:
        """The value after one more contribution. Raises StoreRejected when its fold raises."""
        if self.final:
            return self
        return MemoryValue(_folded(self.payload, given), given.final)

    def with_plain(self, payload: str) -> MemoryValue:
        """The value after one more that is neither final nor folded."""
        return self if self.final else MemoryValue(payload)


class MemoryGroup(Struct):
    """The facts about a group beside its members."""

    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    closing: bool = False
    value: MemoryValue = MemoryValue()
    told: bool = False
    """True if its end has been reported."""
    failed_gone: int = 0
    """Members that had failed and were removed."""


class Groups:
    """All groups of one store."""

    __slots__ = ("failed", "members", "open", "rows", "to_close")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryGroup] = {}
        self.members: dict[str, set[str]] = {}
        """Group to all members except the root."""
        self.open: dict[str, set[str]] = {}
        """Group to members that have not ended, except the root."""
        self.failed: dict[str, set[str]] = {}
        """Group to members that are dead or cancelled, except the root."""
        self.to_close: dict[str, None] = {}
        """Groups that are closing and may have members to cancel."""

    def row(self, group_id: str, root: JobRecord | None) -> MemoryGroup:
        """The row of a group, made when there is none."""
        row = self.rows.get(group_id)
        if row is None:
            row = self.rows[group_id] = row_beside(root)
        return row

    def adopt(self, root: JobRecord, policy: GroupPolicy) -> None:
        """A new root says what becomes of its group, also of one that was there before it."""
        row = self.row(root.id, None)
        row.policy = policy
        # Members may have come and failed before their root.
        if policy is GroupPolicy.FAIL_FAST and (root.id in self.failed or row.failed_gone):
            self.close(root.id, row)

    def count(self, before: JobRecord | None, job: JobRecord, root: JobRecord | None) -> None:
        """A member has become this; ``root`` is the group's, as it is now."""
        group_id, state = job.group_id, job.state
        if group_id != job.id:
            if before is None:
                self.row(group_id, root)
                _join(self.members, group_id, job.id)
            if state in TERMINAL:
                _discard(self.open, group_id, job.id)
            else:
                _join(self.open, group_id, job.id)
            if state in FAILED:
                _join(self.failed, group_id, job.id)
            elif before is not None:
                _discard(self.failed, group_id, job.id)
        row = self.rows.get(group_id)
        if row is not None:
            self._close_or_not(row, before, job)

    def _close_or_not(self, row: MemoryGroup, before: JobRecord | None, job: JobRecord) -> None:
        redriven = before is not None and before.state in TERMINAL and job.state not in TERMINAL
        # A job that is put back is to run, so its group must not go on closing.
        if redriven:
            row.closing = False
            self.to_close.pop(job.group_id, None)
        elif job.state in FAILED and row.policy is GroupPolicy.FAIL_FAST:
            self.close(job.group_id, row)
        elif before is None and row.closing:
            self.to_close[job.group_id] = None

    def close(self, group_id: str, row: MemoryGroup) -> None:
        """Its members are to be cancelled."""
        row.closing = True
        self.to_close[group_id] = None

    def forget(self, job: JobRecord, root: JobRecord | None) -> None:
        """A job is gone; its group goes with the last one. ``root`` is what is left of it."""
        if job.group_id != job.id:
            for index in (self.members, self.failed):
                _discard(index, job.group_id, job.id)
        if root is None and job.group_id not in self.members:
            self.rows.pop(job.group_id, None)
            self.to_close.pop(job.group_id, None)
        elif job.state in FAILED:
            # The count of failures outlives the jobs that failed: who reads the group later must
            # not see fewer.
            self.row(job.group_id, root).failed_gone += 1

    def report(self, job: JobRecord) -> bool:
        """The last open job has ended: whether that is to be told, which it is once."""
        row = self.rows.get(job.group_id)
        if row is None:
            # A group without a row is told about by its lone job, and once: a job that was put back
            # has told it before.
            return job.redrives == 0
        told, row.told = row.told, True
        return not told


def row_beside(root: JobRecord | None) -> MemoryGroup:
    """The row of a group that had none: it says what its root has said."""
    # A root that had ended has told the end of its group, so its members do not tell it again.
    ended = root is not None and (root.state.terminal or root.redrives > 0)
    return MemoryGroup(value=value_beside(root), told=ended)


def value_beside(root: JobRecord | None) -> MemoryValue:
    """The value of a group that had no row: its lone job's result."""
    return MemoryValue() if root is None else MemoryValue(root.result)


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        return given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error


def _join(index: dict[str, set[str]], key: str, member: str) -> None:
    members = index.get(key)
    if members is None:
        index[key] = {member}
    else:
        members.add(member)


def _discard(index: dict[str, set[str]], key: str, member: str) -> None:
    """Take a member out, and the key with its last one."""
    members = index.get(key)
    if members is None:
        return
    members.discard(member)
    if not members:
        del index[key]
