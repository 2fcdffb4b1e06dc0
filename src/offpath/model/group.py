"""Groups: jobs that are counted together, and the value that they make."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from offpath.model.quiet import Quiet


class GroupPolicy(StrEnum):
    """The fate of the others when a member of a group died or was cancelled."""

    SETTLE_ALL = "settle_all"
    """They run to their ends."""
    FAIL_FAST = "fail_fast"
    """They are cancelled."""


Fold = Callable[[str | None, str], str]
"""Takes the group's value so far (None: there is none) and a new one, both codec text, and gives
the next. The store calls it under the group's lock: it must be quick, touch nothing, and be safe
to call again."""


class Contribution(Quiet, frozen=True, kw_only=True, gc=False):
    """The contribution of a job to the value of its group. Without ``fold`` the last one wins."""

    payload: str
    """Codec text."""
    final: bool = False
    """Nothing that comes later changes the value any more. The first final one wins."""
    fold: Fold | None = None


class GroupRecord(Quiet, frozen=True, kw_only=True):
    """Everything the store knows of one group.

    A job that never had company is its own group: then ``open`` is 1 or 0, ``failed`` too, and the
    value is its result.
    """

    id: str
    open: int
    """Members that have not ended. The group is done at 0."""
    failed: int
    """Members that died or were cancelled and were not put back; those that are gone too."""
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    closing: bool = False
    """True if its open members are being cancelled: by its policy, or because somebody asked."""
    final: bool = False
    """True if the value is locked."""
    result: str | None = None
    """The value: codec text, None when nobody contributed any."""

    @property
    def done(self) -> bool:
        """True if every member has ended."""
        return self.open == 0
