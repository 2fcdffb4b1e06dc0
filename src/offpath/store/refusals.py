"""The errors that every backend raises alike: each has its one text here."""

from __future__ import annotations

from offpath.errors import InvalidArgument, LeaseLost, StoreRejected
from offpath.model.effects import Effects


def not_unicode() -> StoreRejected:
    """The error for text that cannot be encoded."""
    return StoreRejected(
        "a text holds a lone surrogate (half a character), which cannot be stored: remove it"
    )


def no_position() -> InvalidArgument:
    """The error for a position that no page has given."""
    return InvalidArgument("after= is not a position: give the `next` of the page before")


def not_held(job: str) -> LeaseLost:
    """The error for a worker that does not hold a job any more."""
    return LeaseLost(f"job {job} is not held by this worker any more: stop working on it")


def no_uuid(kind: str, text: str) -> StoreRejected:
    """The error for an id that a database cannot keep as one."""
    return StoreRejected(f"a {kind}'s id must be a UUID, not {text[:60]!r}")


def refuse_contributions(*all_effects: Effects) -> None:
    """Raise ``InvalidArgument`` where somebody gives to a group and is not a member that ends."""
    if any(effects.contributions for effects in all_effects):
        raise InvalidArgument(
            "only a settled job can contribute to the value of its group: "
            "put the contribution into the effects of a settlement"
        )
