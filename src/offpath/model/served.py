"""The queues that a worker serves, as people write them: names, limits and orders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.lease import Order

OTHERS = "*"
"""Among the queues of a worker: all that are not named."""


def by_queue(given: object) -> object:
    """``emails:5, reports``, a list of these or a mapping, as a mapping from queue to limit.

    Anything else as it is. A name that itself ends with a colon and a number needs the mapping.
    Raises ``InvalidArgument`` for what stands behind a colon in a text and is not a number.
    """
    if isinstance(given, str):
        given = [_unmistaken(part.strip()) for part in given.split(",") if part.strip()]
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, list | tuple | set | frozenset):
        return given
    return dict(_queue_and_limit(each) for each in given)


def _unmistaken(part: str) -> str:
    """One part of a text. A list is code, and may well name a queue with a colon in it."""
    name, colon, limit = part.rpartition(":")
    if colon and not _QUEUE_LIMIT.fullmatch(part):
        raise InvalidArgument(
            f"queue {part!r}: {limit.strip()!r} is not a number of jobs; the form is {name}:5, or "
            f'{name} without a limit. A queue whose name has a colon is given in a list: ["{part}"]'
        )
    return part


def _queue_and_limit(given: object) -> tuple[object, object]:
    match = _QUEUE_LIMIT.fullmatch(given) if isinstance(given, str) else None
    return (given, None) if match is None else (match[1].strip(), int(match[2]))


_QUEUE_LIMIT = re.compile(r"(.+):\s*(\d{1,9})", re.DOTALL)


def refused_queues(queues: Mapping[str, int | None]) -> str | None:
    """The reason why a worker cannot serve these; None when it can."""
    if queues.get(OTHERS) is not None:
        return "* stands for all other queues, which have no common limit: give each one its own"
    return None


Dispatch: TypeAlias = Literal["priority", "age", "balanced"]
FORM = "priority, age or balanced, or one for each queue, as mail:balanced,*:age"


def by_order(given: object) -> object:
    """``mail:balanced, *:age`` as a mapping from queue to word; anything else as it is."""
    if isinstance(given, str) and ":" in given:
        parts = [part.strip().rpartition(":") for part in given.split(",") if part.strip()]
        return {name.strip(): word.strip() for name, _, word in parts}
    return given


def orders_of(given: object) -> tuple[Order, dict[str, Order]]:
    """The order of all queues but those that have one of their own, and these.

    Raises ``InvalidArgument``.
    """
    words = by_order(given)
    if not isinstance(words, Mapping):
        return _order(words), {}
    own = {checks.name(name, "queue"): _order(word) for name, word in words.items()}
    return own.pop(OTHERS, Order.PRIORITY), own


def _order(word: object) -> Order:
    if not isinstance(word, str) or word not in {each.value for each in Order}:
        raise InvalidArgument(f"dispatch is {FORM}, not {word!r}")
    return Order(word)
