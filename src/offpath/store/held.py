"""The rule of every backend for a unique key that another job holds.

The key itself is in the error's ``key`` alone, not in its text: it may be made of a job's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offpath.errors import UniqueConflict
from offpath.model.job import JobState, UniquePolicy

_TEXTS: Final[Mapping[UniquePolicy, str]] = {
    UniquePolicy.ATTACH: (
        "the unique key is held by job {id} ({state}) with another input: "
        "use another key, or wait until that job has ended"
    ),
    UniquePolicy.REPLACE: (
        "the unique key is held by job {id}, which is {state} and cannot be replaced: "
        "wait until it has ended, or cancel it"
    ),
    UniquePolicy.REFUSE: (
        "the unique key is held by job {id} ({state}): wait until it has ended, or cancel it"
    ),
}


def held(policy: UniquePolicy, key: str, *, holder: str, state: JobState) -> UniqueConflict:
    """The error for a job whose unique key ``holder`` has, and will not share."""
    text = _TEXTS[policy].format(id=holder, state=state.value)
    return UniqueConflict(text, key=key, holder=holder)
