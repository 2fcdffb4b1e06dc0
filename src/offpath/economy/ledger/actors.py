"""The actor that asks for an operation."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from offpath.model.checks import unseen
from offpath.model.ledger.faults import MalformedOperation, Unauthorized


class Actor(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A user, an operator, or a part of the system. The last two may do anything."""

    kind: Literal["user", "operator", "system"]
    id: str

    @classmethod
    def user(cls, user: str) -> Actor:
        """A user: may only spend, pay out, subscribe and cancel, and only for himself."""
        return cls("user", user)

    @classmethod
    def operator(cls, name: str) -> Actor:
        """A person who runs the platform."""
        return cls("operator", name)

    @classmethod
    def system(cls, name: str) -> Actor:
        """A part of the platform: a job, a webhook, a sweep."""
        return cls("system", name)

    @property
    def trusted(self) -> bool:
        """True if it may do anything."""
        return self.kind != "user"


def owner_or_trusted(actor: Actor, owner: str, what: str) -> None:
    """Refuse a user who acts for somebody else. Raises ``Unauthorized``."""
    if actor.kind == "user" and actor.id != owner:
        raise Unauthorized(f"users may {what} only for themselves")


def trusted_only(actor: Actor, what: str) -> None:
    """Refuse users. Raises ``Unauthorized``."""
    if actor.kind == "user":
        raise Unauthorized(f"users may not {what}: give Actor.operator(...) or Actor.system(...)")


def checked_actor(actor: object) -> Actor:
    """An actor with a name. Raises ``MalformedOperation``."""
    if not isinstance(actor, Actor):
        raise MalformedOperation(
            "actor must be Actor.user(id), Actor.operator(name) or Actor.system(name)"
        )
    if actor.kind not in {"user", "operator", "system"}:
        raise MalformedOperation(f"an actor is a user, an operator or a system, not {actor.kind}")
    named: object = actor.id
    if not isinstance(named, str) or not named.strip() or unseen(named) is not None:
        raise MalformedOperation("an actor has an id, of characters that can be seen")
    return actor
