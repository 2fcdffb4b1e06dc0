"""The rows of groups: jobs that are counted together, and the value that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from offpath.model.group import GroupPolicy, GroupRecord
from offpath.model.job import JobRecord, JobState

_FAILED = (JobState.DEAD, JobState.CANCELLED)


class KeptGroup(NamedTuple):
    """The facts about a group beside its members."""

    open: int = 0
    failed: int = 0
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    closing: bool = False
    told: bool = False
    value: str | None = None
    final: bool = False
    stored_value: str | None = None
    """The field as it is stored, to be compared before it changes."""
    stored_final: str | None = None

    def fields(self) -> list[Any]:
        """The fields of its hash, flat."""
        flat: list[Any] = ["o", self.open, "f", self.failed, "p", self.policy.value]
        flat += ["c", str(int(self.closing)), "t", str(int(self.told)), "n", str(int(self.final))]
        return flat if self.value is None else [*flat, "v", self.value]


def row_of(fields: Mapping[bytes, bytes]) -> KeptGroup | None:
    """A row from its hash; None where there is none."""
    if not fields:
        return None
    value, final = fields.get(b"v"), fields.get(b"n")
    return KeptGroup(
        open=int(fields.get(b"o", b"0")),
        failed=int(fields.get(b"f", b"0")),
        policy=GroupPolicy(fields.get(b"p", b"settle_all").decode()),
        closing=fields.get(b"c") == b"1",
        told=fields.get(b"t") == b"1",
        value=None if value is None else value.decode(),
        final=fields.get(b"n") == b"1",
        stored_value=None if value is None else value.decode(),
        stored_final=None if final is None else final.decode(),
    )


def beside(root: JobRecord | None) -> KeptGroup:
    """The row of a group that had none: it says what its root says."""
    if root is None:
        return KeptGroup()
    return KeptGroup(
        open=int(not root.state.terminal),
        failed=int(root.state in _FAILED),
        told=root.state.terminal or root.redrives > 0,
        value=root.result,
    )


def record_of(group_id: str, row: KeptGroup) -> GroupRecord:
    """A group as callers see it."""
    return GroupRecord(
        id=group_id,
        open=row.open,
        failed=row.failed,
        policy=row.policy,
        closing=row.closing,
        final=row.final,
        result=row.value,
    )
