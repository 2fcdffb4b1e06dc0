"""Errors of the driver as errors of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions

from offpath.errors import StoreError, StoreRejected, StoreUnavailable
from offpath.store.refusals import not_unicode

_AWAY: Final = frozenset(
    {
        *("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY"),
        *("TRYAGAIN", "NOREPLICAS", "MISCONF"),
    }
)
"""The first word of what a server says that cannot take a write now."""
_REFUSED: Final = ("NOAUTH", "WRONGPASS", "NOPERM")


def text_of(error: BaseException) -> str:
    """The words of a server or driver, without its question: that may hold secrets."""
    return str(error).partition("\n")[0][:300]


def translated(error: exceptions.RedisError | OSError) -> StoreError:
    """The error of the store that an error of the driver means."""
    told = text_of(error)
    first = told.partition(" ")[0]
    if isinstance(error, exceptions.AuthenticationError) or first in _REFUSED:
        return StoreUnavailable(f"Redis refuses this user: {told}")
    if isinstance(error, exceptions.OutOfMemoryError) or "OOM " in told:
        return StoreUnavailable(
            "Redis has no memory left (maxmemory): nothing was written; give it more, "
            "or keep ended jobs for a shorter time"
        )
    if isinstance(error, exceptions.AskError):
        return StoreUnavailable(
            "this server is a node of a Redis Cluster, which offpath does not work on: "
            "give the address of a server of its own"
        )
    if isinstance(error, exceptions.ResponseError) and not _is_away(error, first):
        return StoreRejected(f"Redis refused a write: {told}")
    return StoreUnavailable(f"Redis is away: {told or type(error).__name__}")


def _is_away(error: exceptions.ResponseError, first: str) -> bool:
    away = exceptions.ReadOnlyError, exceptions.ClusterError, exceptions.NoScriptError
    return isinstance(error, away) or first in _AWAY


@contextmanager
def told_as_store_errors() -> Iterator[None]:
    """Raise errors of the driver as those of the store."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise not_unicode() from error
    except (exceptions.RedisError, OSError) as error:
        raise translated(error) from error
