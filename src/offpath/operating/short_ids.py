"""Short ids: the unique beginning of an id stands for it, wherever an operator gives one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.model.brief import Kind
from offpath.model.id_range import LEAST, id_range
from offpath.operating.targets import GroupsTarget, IdTarget, JobsTarget, MessagesTarget
from offpath.runtime.ids import parse_id

_TOLD: Final = 3
"""Candidates that are named."""
_LOOKED_AT: Final = 100
"""Candidates that are told apart."""
_CUT: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{1,26}")
"""An id that a list has cut: a key may look like fewer characters of one."""
_WHOLE: Final = 32
"""Digits of an id: what has so many is looked for nowhere."""


async def whole(app: App, kind: Kind, given: str, name: str = "id") -> str:
    """The whole id that begins with what was given; a whole one is not looked for.

    Raises ``InvalidArgument`` for what cannot be an id and, with the candidates, for the beginning
    of several; ``NotFound`` where no id begins so.
    """
    try:
        return parse_id(given, name)
    except InvalidArgument:
        if id_range(given) is None:
            raise InvalidArgument(
                f"{name} must be a UUID of 36 characters, or at least {LEAST} from its beginning, "
                f"not {given[:60]!r}"
            ) from None
    found = await app.store().ids_beginning(kind, given, limit=_LOOKED_AT)
    if not found:
        raise NotFound(f"no {kind.value} has an id that begins with {given[:40]!r}")
    return _only(found, given, f"{kind.value}s")


async def group_whole(app: App, given: str) -> str:
    """The whole id of a group, looked for among groups of several jobs first, as lists show them;
    a job alone is a group too. Raises as :func:`whole`.
    """
    return await _of_several(app, given) or await whole(app, Kind.JOB, given, "GROUP_ID")


async def _of_several(app: App, given: str) -> str | None:
    """The id of the group of several jobs that begins so; its root was often queued in the same
    millisecond as many jobs alone, whose ids begin so too.
    """
    between = id_range(given)
    if between is None or len(given) >= _WHOLE:
        return None
    first, last = between
    page = await app.store().browse_groups(limit=_LOOKED_AT, after=last)
    found = sorted(one.id for one in page if one.id >= first)
    return _only(found, given, "groups") if found else None


def _only(found: Sequence[str], given: str, many: str) -> str:
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found[:_TOLD]) + (", …" if len(found) > _TOLD else "")
    raise InvalidArgument(
        f"several ids of {many} begin with {given[:40]!r}: {listed}; give more of "
        f"it: {_telling(found)} characters tell them apart"
    )


def _telling(found: Sequence[str]) -> int:
    """The number of characters by which each of these ids is told from the others."""
    return 1 + max(_shared(one, other) for one, other in pairwise(sorted(found)))


def _shared(one: str, other: str) -> int:
    return next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])


async def finding_whole(app: App, given: str) -> str:
    """The whole id of a finding that stands; what no id begins with is left as it was given.
    Raises ``InvalidArgument`` for the beginning of several.
    """
    between = id_range(given)
    if between is None:
        return given
    known = await app.store().findings()
    found = sorted(one.id for one in known if between[0] <= one.id <= between[1])
    return _only(found, given, "findings") if found else given


async def completed(app: App, kind: Kind, given: str) -> str:
    """The whole id that begins with what was given; that itself, where no id begins so. Raises
    ``InvalidArgument`` for the beginning of several.
    """
    if id_range(given) is None or len(given) >= _WHOLE:
        return given
    found = await app.store().ids_beginning(kind, given, limit=_LOOKED_AT)
    return _only(found, given, f"{kind.value}s") if found else given


async def all_completed(app: App, kind: Kind, given: Iterable[str]) -> tuple[str, ...]:
    """Several, in their order. Raises as :func:`completed`."""
    return tuple([await completed(app, kind, each) for each in given])


async def page_start(app: App, kind: Kind, after: str | None) -> str | None:
    """The place that a page follows, often an id; None at the first page. Raises as
    :func:`completed`.
    """
    return None if after is None else await completed(app, kind, after)


async def group_start(app: App, after: str | None) -> str | None:
    """The same of a page of groups."""
    if after is None:
        return None
    return await _of_several(app, after) or await completed(app, Kind.JOB, after)


async def job_or_key(app: App, target: str) -> str:
    """The target of a signal: the job whose id begins so, as lists show it, otherwise the key."""
    return await completed(app, Kind.JOB, target) if _CUT.fullmatch(target) else target


async def all_whole(app: App, kind: Kind, given: Iterable[str]) -> tuple[str, ...]:
    """The whole ids of several, in their order. Raises as :func:`whole`."""
    return tuple([await whole(app, kind, each) for each in given])


async def target_whole(app: App, verb: str, target: Any) -> Any:  # noqa: ANN401 - any verb's
    """A target whose ids are whole. Raises as :func:`whole`."""
    match target:
        case JobsTarget() if target.ids:
            return replace(target, ids=await all_whole(app, Kind.JOB, target.ids))
        case MessagesTarget() if target.ids:
            return replace(target, ids=await all_whole(app, Kind.MESSAGE, target.ids))
        case GroupsTarget():
            named = [await group_whole(app, each) for each in target.named()]
            return GroupsTarget(ids=tuple(dict.fromkeys(named)))
        case IdTarget() if (kind := _KINDS.get(verb.partition(".")[0])) is not None:
            return replace(target, id=await whole(app, kind, target.id))
    return target


_KINDS: Final = {"worker": Kind.WORKER}
"""The kinds of targets that have one id, by the first word of the verb."""
