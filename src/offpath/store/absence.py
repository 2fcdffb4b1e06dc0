"""The answers of a store that lacks a part of the contract.

Each part's file ends with them, so that a method and its answer where the part is absent are read
together. What would write something raises. A read or a pass finds nothing, since nothing of the
part can be there, and the server is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, cast

from offpath.errors import CapabilityMissing
from offpath.store.capabilities import Capabilities, Profile
from offpath.store.offered import FEATURES, offering

P = ParamSpec("P")
T = TypeVar("T")


class HasCapabilities(Protocol):
    """A store, as far as a refusal must know it."""

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        ...


def missing(capabilities: Capabilities, profile: Profile) -> CapabilityMissing:
    """The error for what a backend does not offer."""
    *others, last = offering(profile)
    error = CapabilityMissing(
        f"{capabilities.name} does not offer {FEATURES[profile]}: "
        f"use a store that does ({', '.join(others)} or {last})"
    )
    error.profile = profile.value
    return error


def refused(
    profile: Profile, method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """A method of a profile that the store has not."""

    @wraps(method)
    async def refuse(self: HasCapabilities, *_: object, **__: object) -> NoReturn:
        raise missing(self.capabilities, profile)

    # it has the shape of the protocol's own method
    return cast("Callable[Concatenate[Any, P], T]", refuse)


def none_of(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], answer: Callable[[], T]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A read or a pass over what the store cannot have: there is none. The server is not asked."""

    @wraps(method)
    async def nothing(self: object, *_: object, **__: object) -> T:  # noqa: ARG001
        return answer()

    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", nothing)


def refused_at_once(
    profile: Profile, method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """A method of a profile that the store has not, which nobody awaits."""

    @wraps(method)
    def refuse(self: HasCapabilities, *_: object, **__: object) -> NoReturn:
        raise missing(self.capabilities, profile)

    return cast("Callable[Concatenate[Any, P], T]", refuse)
