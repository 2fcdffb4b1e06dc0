"""Another value in the place of a resource, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from offpath.jobs.handler.resources import Resource

T = TypeVar("T")


def swap_resource(resource: Resource[T], value: T) -> AbstractContextManager[T]:
    """Let ``ctx.resource(resource)`` give ``value`` within a ``with`` block.

    The resource is not opened meanwhile; one that is open already stays so.
    """
    return resource.swap(value)
