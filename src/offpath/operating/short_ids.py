"""Short ids: the unique beginning of an id stands for it, wherever an operator gives one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.model.brief import Kind
from offpath.model.id_range import LEAST, id_range
from offpath.operating.targets import IdTarget, JobsTarget, MessagesTarget
from offpath.runtime.ids import parse_id

_TOLD: Final = 3
"""Candidates that are named."""
_LOOKED_AT: Final = 100
"""Candidates that are told apart."""
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
        case IdTarget() if verb.startswith("group."):
            return replace(target, id=await group_whole(app, target.id))
        case IdTarget() if (kind := _KINDS.get(verb.partition(".")[0])) is not None:
            return replace(target, id=await whole(app, kind, target.id))
    return target


_KINDS: Final = {"worker": Kind.WORKER}
"""The kinds of targets that have one id, by the first word of the verb."""
